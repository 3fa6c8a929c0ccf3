package broken

import (
	"context"
	"sync/atomic"
	"time"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
)

// callers keep their caller waiting, or worse.
func callers() []Breakage {
	return []Breakage{
		{Name: "waits-for-the-broker", Breaks: rules{brokertest.Late}, Also: rules{brokertest.WrongClass},
			Why: "a Publish that reconnects first, as kafka-go with 10 attempts does", Wrap: waitsForTheBroker},
		{Name: "ignores-the-deadline", Breaks: rules{brokertest.Late},
			Why: "a blocking write on a socket without deadline", Wrap: ignoresTheDeadline},
		{Name: "panics-after-close", Breaks: rules{brokertest.Panicked},
			Why: "a send on a closed channel", Wrap: panicsAfterClose},
		{Name: "says-nothing-waits", Breaks: rules{brokertest.WrongBacklog},
			Why: "a count of what was not delivered, where not acknowledged was asked", Wrap: saysNothingWaits},
		{Name: "forgets-on-prepare", Breaks: rules{brokertest.Lost},
			Why: "topics deleted and made again to be sure that they are there", Wrap: forgetsOnPrepare},
	}
}

func waitsForTheBroker(h Healthy) Healthy {
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		for {
			err := h.Publish(ctx, msgs...)
			if bus.Classify(err) != bus.Unavailable {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(20 * time.Millisecond):
			}
		}
	}}
}

// ignoresTheDeadline waits three seconds for an answer, whatever the caller says.
func ignoresTheDeadline(h Healthy) Healthy {
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		patience := time.NewTimer(3 * time.Second)
		defer patience.Stop()
		err := h.Publish(ctx, msgs...)
		if bus.Classify(bus.Outcome(err, 0)) == bus.Ambiguous || ctx.Err() != nil {
			<-patience.C
		}
		return err
	}}
}

type panicking struct {
	Healthy
	closed atomic.Bool
}

func panicsAfterClose(h Healthy) Healthy { return &panicking{Healthy: h} }

func (b *panicking) Close() error {
	b.closed.Store(true)
	return b.Healthy.Close()
}

func (b *panicking) Publish(ctx context.Context, msgs ...bus.Message) error {
	if b.closed.Load() {
		panic("broken: send on closed channel")
	}
	return b.Healthy.Publish(ctx, msgs...)
}

type sayingNothingWaits struct{ Healthy }

func saysNothingWaits(h Healthy) Healthy { return sayingNothingWaits{h} }

func (sayingNothingWaits) Backlog(context.Context, string, string) (int64, error) { return 0, nil }

type forgetting struct{ Healthy }

func forgetsOnPrepare(h Healthy) Healthy { return forgetting{h} }

func (b forgetting) Prepare(ctx context.Context, topic string, groups ...string) error {
	if err := b.Healthy.Remove(ctx, topic, groups...); err != nil {
		return err
	}
	return b.Healthy.Prepare(ctx, topic, groups...)
}
