package lab

import (
	"context"
	"fmt"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// Place places an order the way of a chapter's variant ("" is the default one)
// on the bus that the order names, and returns how long its transaction took.
// ErrUnknownBus, ErrBusOff and ErrBusStarting come before the transaction.
func (l *Live) Place(ctx context.Context, chapter int, variant string, o shop.Order,
	steps *checkpoint.Steps) (time.Duration, error) {
	c, ok := l.Chapter(chapter)
	if !ok {
		return 0, fmt.Errorf("there is no chapter %d", chapter)
	}
	if err := l.off[chapter]; err != nil {
		return 0, err
	}
	v, ok := c.Variant(variant)
	if !ok {
		return 0, fmt.Errorf("chapter %d has no variant %q", chapter, variant)
	}
	b, err := l.busFor(c, o.Bus)
	if err != nil {
		return 0, err
	}
	timed := &pg.Timed{DB: l.pools[chapter]}
	deps := l.deps(c, o.Bus, b)
	deps.DB, deps.Steps = timed, steps
	producer := v.Producer(deps)
	err = producer.PlaceOrder(ctx, o)
	return timed.Spent(), err
}

// busFor returns the bus that an order of c needs, nil where an outbox makes it
// unnecessary: from chapter 3 on an order can be taken before its bus is there.
func (l *Live) busFor(c Chapter, name string) (bus.Bus, error) {
	info, err := l.Bus(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	b := l.buses[laneKey{c.Number, name}]
	l.mu.Unlock()
	switch {
	case info.State == Off:
		return nil, fmt.Errorf("%w: %s: %s", ErrBusOff, name, info.Fix)
	case b == nil && !c.Outbox:
		return nil, fmt.Errorf("%w: %s: %s", ErrBusStarting, name, info.Note)
	}
	return b, nil
}

// Backlog says how many messages of a chapter the bus still holds for the
// listener. An error means that nobody can tell now.
func (l *Live) Backlog(ctx context.Context, chapter int, busName string) (int64, error) {
	c, _ := l.Chapter(chapter)
	l.mu.Lock()
	b := l.buses[laneKey{chapter, busName}]
	l.mu.Unlock()
	counter, ok := b.(bus.Backlogger)
	if !ok {
		return 0, fmt.Errorf("%s cannot tell its backlog yet", busName)
	}
	return counter.Backlog(ctx, c.Topic, shop.Group)
}
