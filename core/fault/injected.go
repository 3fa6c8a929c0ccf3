package fault

import (
	"sync"
	"sync/atomic"
	"time"
)

// Counts is what a rule really did.
type Counts struct {
	Cut            int64 `json:"cut"`             // connections reset
	Refused        int64 `json:"refused"`         // dials refused
	Held           int64 `json:"held"`            // chunks and dials held by Stall
	HeldBytes      int64 `json:"held_bytes"`      // bytes held by Stall
	Delayed        int64 `json:"delayed"`         // reply chunks delayed
	DelayedBytes   int64 `json:"delayed_bytes"`   // reply bytes delayed
	Armed          int64 `json:"armed"`           // connections whose requests contained Arm
	Swallowed      int64 `json:"swallowed"`       // connections that lost reply bytes
	SwallowedBytes int64 `json:"swallowed_bytes"` // reply bytes dropped
}

// Status is one rule as a list of active faults shows it.
type Status struct {
	Name    string    `json:"name"`
	Kind    Kind      `json:"kind"`
	Role    string    `json:"role"`   // empty: every role
	Target  string    `json:"target"` // empty: every address
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires"`
	Hits    int64     `json:"hits"`
	Counts  Counts    `json:"counts"`
}

// Injected is a rule in force, or one that was. Safe for concurrent use.
type Injected struct {
	rule    Rule
	since   time.Time
	proxy   *Proxy
	timer   *time.Timer // guarded by the proxy's lock
	done    chan struct{}
	lift    sync.Once
	claimed atomic.Bool

	mu     sync.Mutex
	counts Counts
}

// Hits says how often the rule struck: connections cut, dials refused, chunks
// and dials held, chunks delayed, connections that lost replies. It goes on
// telling after the rule has ended.
func (f *Injected) Hits() int64 {
	c := f.Counts()
	return c.hits(f.rule.Kind)
}

func (c Counts) hits(k Kind) int64 {
	switch k {
	case Stall:
		return c.Held
	case Delay:
		return c.Delayed
	case SwallowReplies:
		return c.Swallowed
	default:
		return c.Cut + c.Refused
	}
}

// Counts returns what the rule did so far, in detail.
func (f *Injected) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

func (f *Injected) count(add func(*Counts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	add(&f.counts)
}

// Status describes the rule for a list.
func (f *Injected) Status() Status {
	c := f.Counts()
	return Status{
		Name: f.rule.Name, Kind: f.rule.Kind, Role: f.rule.Role, Target: f.rule.Target,
		Since: f.since, Expires: f.since.Add(f.rule.TTL), Hits: c.hits(f.rule.Kind), Counts: c,
	}
}

// Done is closed when the rule has ended: lifted, expired, or spent.
func (f *Injected) Done() <-chan struct{} { return f.done }

// Lift ends the rule; dials and bytes move again when it returns, and connections
// that lost replies have been reset. Lifting twice is harmless.
func (f *Injected) Lift() {
	f.lift.Do(func() {
		close(f.done)
		f.proxy.drop(f)
	})
}

func (f *Injected) lifted() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// claim lets a connection be struck; a rule with Once lets it happen once.
func (f *Injected) claim() bool {
	return !f.rule.Once || f.claimed.CompareAndSwap(false, true)
}

// ruleset is an immutable list of the rules in force, so that a connection reads
// it without a lock. changed is closed when another one has taken its place.
type ruleset struct {
	rules   []*Injected
	changed chan struct{}
}

func newRuleset(rules []*Injected) *ruleset {
	return &ruleset{rules: rules, changed: make(chan struct{})}
}

func (s *ruleset) wake() { close(s.changed) }

// first returns the first rule of one of the kinds that matches, or nil.
func (s *ruleset) first(role, target string, kinds ...Kind) *Injected {
	for _, f := range s.rules {
		for _, k := range kinds {
			if f.rule.Kind == k && f.rule.matches(role, target) {
				return f
			}
		}
	}
	return nil
}
