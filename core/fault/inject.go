package fault

import (
	"errors"
	"slices"
	"time"
)

// ErrClosed is what Inject returns after Close.
var ErrClosed = errors.New("fault: proxy closed")

// Inject puts a rule in force. When it returns, open connections have been reset
// if the rule does that, and bytes sent from now on are subject to it.
func (p *Proxy) Inject(rule Rule) (*Injected, error) {
	if err := rule.check(); err != nil {
		return nil, err
	}
	rule = rule.withDefaults()
	rule.Arm = slices.Clone(rule.Arm)
	f := &Injected{rule: rule, since: time.Now(), proxy: p, done: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	f.timer = time.AfterFunc(rule.TTL, f.Lift)
	p.replace(append(slices.Clone(p.rules.Load().rules), f))
	p.cut(f)
	p.mu.Unlock()
	if rule.Kind == Cut {
		f.Lift()
	}
	return f, nil
}

// cut resets what the rule matches, for the kinds that do so. The caller has mu.
func (p *Proxy) cut(f *Injected) {
	if f.rule.Kind != Cut && f.rule.Kind != Outage {
		return
	}
	for l := range p.links {
		if f.rule.matches(l.role, l.target) && l.end(true) {
			f.count(func(c *Counts) { c.Cut++ })
		}
	}
}

// drop takes an ended rule out of force.
func (p *Proxy) drop(f *Injected) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.timer.Stop()
	rest := slices.DeleteFunc(slices.Clone(p.rules.Load().rules), func(g *Injected) bool { return f == g })
	p.replace(rest)
	for l := range p.links {
		l.release(f)
	}
}

// replace swaps the rules and wakes whoever waits for a change. The caller has mu.
func (p *Proxy) replace(rules []*Injected) {
	p.rules.Swap(newRuleset(rules)).wake()
}

// Active lists the rules in force, oldest first.
func (p *Proxy) Active() []Status {
	list := []Status{}
	for _, f := range p.rules.Load().rules {
		list = append(list, f.Status())
	}
	return list
}
