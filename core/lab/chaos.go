package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
)

// The bounds of an outage of the interactive chapters.
const (
	DefaultChaos = 30 * time.Second
	MaxChaos     = 5 * time.Minute
)

// ErrNoConnection: the bus in memory has no connection that could be cut.
var ErrNoConnection = errors.New("the bus in memory has no connection that could be cut")

// Break cuts a bus off from the interactive chapters of this process for d: their
// connections are reset and new ones refused. The broker itself, other processes
// and runs of the lab do not notice. A second Break replaces the first.
func (l *Live) Break(name string, d time.Duration) (fault.Status, error) {
	info, err := l.Bus(name)
	switch {
	case err != nil:
		return fault.Status{}, err
	case name == "inmemory":
		return fault.Status{}, ErrNoConnection
	case info.State == Off:
		return fault.Status{}, fmt.Errorf("%w: %s: %s", ErrBusOff, name, info.Fix)
	case d <= 0 || d > MaxChaos:
		return fault.Status{}, fmt.Errorf("an outage lasts up to %v, not %v", MaxChaos, d)
	}
	l.chaosMu.Lock()
	defer l.chaosMu.Unlock()
	broken, err := l.proxy.Inject(fault.Rule{Name: name, Role: "live/" + name, Kind: fault.Outage, TTL: d})
	if err != nil {
		return fault.Status{}, err
	}
	if old := l.broken[name]; old != nil {
		old.Lift() // after the new one is in force, so that there is no gap
	}
	l.broken[name] = broken
	return broken.Status(), nil
}

// Heal ends the outage of a bus and says what it did. ok is false when there was none.
func (l *Live) Heal(name string) (was fault.Status, ok bool, err error) {
	if _, err := l.Bus(name); err != nil {
		return was, false, err
	}
	l.chaosMu.Lock()
	defer l.chaosMu.Unlock()
	broken := l.broken[name]
	if broken == nil {
		return was, false, nil
	}
	delete(l.broken, name)
	select {
	case <-broken.Done(): // its time was over already
	default:
		ok = true
	}
	broken.Lift()
	return broken.Status(), ok, nil
}

// Outages lists the outages that are on now.
func (l *Live) Outages() []fault.Status { return l.proxy.Active() }

// openFor opens a bus for a chapter, through the proxy.
func (l *Live) openFor(ctx context.Context, a attachment, c Chapter) (bus.Bus, error) {
	return a.open(ctx, BusOptions{Schema: c.Schema(), Dial: l.proxy.Dialer("live/" + a.info.Name)})
}
