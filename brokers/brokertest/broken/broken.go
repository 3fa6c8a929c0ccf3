// Package broken holds buses that are broken on purpose, each in one way that
// real drivers have been broken in. They exist to test the conformance suite, and
// for whoever wants to see what a failure looks like. Never use one for messages.
//
// Each is a decorator over a healthy bus and says which rules it breaks.
package broken

import (
	"context"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
)

// Healthy is what a breakage is built on.
type Healthy interface {
	bus.Bus
	bus.Topology
	bus.Backlogger
}

// Breakage is one way to break a bus.
type Breakage struct {
	// Name says it in a few words, with dashes.
	Name string
	// Why says who is broken like this, or how it comes about.
	Why string
	// Breaks are the rules that a suite must find broken, all of them.
	Breaks []brokertest.Rule
	// Also are rules that may be found broken as a consequence, depending on when
	// a fault strikes. A suite that reports any other rule is wrong.
	Also []brokertest.Rule
	// Costly: it takes many messages to find it.
	Costly bool
	// Wrap breaks a healthy bus. Close and the optional interfaces pass through.
	Wrap func(Healthy) Healthy
}

// All returns the breakages.
func All() []Breakage {
	list := append(publishers(), liars()...)
	list = append(list, subscribers()...)
	return append(list, callers()...)
}

// publishing is a bus whose Publish is replaced.
type publishing struct {
	Healthy
	publish func(ctx context.Context, msgs []bus.Message) error
}

func (b *publishing) Publish(ctx context.Context, msgs ...bus.Message) error {
	return b.publish(ctx, msgs)
}

// subscribing is a bus whose Subscribe is replaced.
type subscribing struct {
	Healthy
	subscribe func(ctx context.Context, topic, group string, h bus.Handler) error
}

func (b *subscribing) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	return b.subscribe(ctx, topic, group, h)
}

// outcomes spreads the error of a Publish over its messages.
func outcomes(err error, n int) []error {
	outs := make([]error, n)
	for i := range outs {
		outs[i] = bus.Outcome(err, i)
	}
	return outs
}

// retold is a bus that publishes properly and then tells another story of it.
func retold(h Healthy, tell func(error) error) Healthy {
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		outs := outcomes(h.Publish(ctx, msgs...), len(msgs))
		for i, err := range outs {
			outs[i] = tell(err)
		}
		return bus.Join(outs)
	}}
}
