package broken

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
)

// subscribers do something wrong with the messages on their way out.
func subscribers() []Breakage {
	return []Breakage{
		{Name: "never-redelivers", Breaks: rules{brokertest.NotRedelivered},
			Why: "acknowledged on receipt, whatever the handler says", Wrap: neverRedelivers},
		{Name: "delivers-twice", Breaks: rules{brokertest.Duplicated},
			Why: "an acknowledgement that is forgotten now and then", Wrap: deliversTwice},
		{Name: "takes-all", Breaks: rules{brokertest.HoldsTooMany}, Also: rules{brokertest.Reordered},
			Why: "no prefetch limit: the first consumer takes the whole queue", Wrap: takesAll},
		{Name: "one-queue-for-all-groups", Breaks: rules{brokertest.Lost},
			Also: rules{brokertest.WrongBacklog, brokertest.WrongClass},
			Why:  "groups taken for members of one group", Wrap: oneQueue},
		{Name: "stops-after-an-error", Breaks: rules{brokertest.NotRedelivered},
			Also: rules{brokertest.Lost, brokertest.NotShared},
			Why:  "a consumer that ends quietly when its handler fails", Wrap: stopsAfterAnError},
		{Name: "never-returns", Breaks: rules{brokertest.Hangs}, Also: rules{brokertest.NotRedelivered, brokertest.Lost},
			Why: "a blocking read that no context interrupts", Wrap: neverReturns},
	}
}

func neverRedelivers(h Healthy) Healthy {
	return &subscribing{h, func(ctx context.Context, topic, group string, handle bus.Handler) error {
		return h.Subscribe(ctx, topic, group, func(ctx context.Context, m bus.Message) error {
			_ = handle(ctx, m)
			return nil
		})
	}}
}

// deliversTwice repeats each tenth message.
func deliversTwice(h Healthy) Healthy {
	var count atomic.Int64
	return &subscribing{h, func(ctx context.Context, topic, group string, handle bus.Handler) error {
		return h.Subscribe(ctx, topic, group, func(ctx context.Context, m bus.Message) error {
			err := handle(ctx, m)
			if err == nil && count.Add(1)%10 == 0 {
				err = handle(ctx, m)
			}
			return err
		})
	}}
}

// takesAll holds up to a hundred messages for a handler that takes one at a time. It
// does not call it before it has them: however busy the machine, nobody else gets any.
func takesAll(h Healthy) Healthy {
	return &subscribing{h, func(ctx context.Context, topic, group string, handle bus.Handler) error {
		var turn sync.Mutex
		var taken atomic.Int64
		full := sync.OnceFunc(func() {
			for n := int64(-1); n != taken.Load(); {
				n = taken.Load()
				bus.Pause(ctx, 200*time.Millisecond)
			}
		})
		var takers sync.WaitGroup
		for range 100 {
			takers.Go(func() {
				_ = h.Subscribe(ctx, topic, group, func(ctx context.Context, m bus.Message) error {
					taken.Add(1)
					full()
					turn.Lock()
					defer turn.Unlock()
					if ctx.Err() != nil {
						return ctx.Err()
					}
					return handle(ctx, m)
				})
			})
		}
		takers.Wait()
		return nil
	}}
}

const oneName = "everybody"

type sharedQueue struct{ Healthy }

func oneQueue(h Healthy) Healthy { return sharedQueue{h} }

func (b sharedQueue) Prepare(ctx context.Context, topic string, _ ...string) error {
	return b.Healthy.Prepare(ctx, topic, oneName)
}

func (b sharedQueue) Subscribe(ctx context.Context, topic, _ string, h bus.Handler) error {
	return b.Healthy.Subscribe(ctx, topic, oneName, h)
}

func (b sharedQueue) Backlog(ctx context.Context, topic, _ string) (int64, error) {
	return b.Healthy.Backlog(ctx, topic, oneName)
}

func stopsAfterAnError(h Healthy) Healthy {
	return &subscribing{h, func(ctx context.Context, topic, group string, handle bus.Handler) error {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		err := h.Subscribe(reading, topic, group, func(ctx context.Context, m bus.Message) error {
			err := handle(ctx, m)
			if err != nil {
				stop()
			}
			return err
		})
		<-ctx.Done()
		return err
	}}
}

// neverReturns ends with Close at least, or every test of it would leak.
func neverReturns(h Healthy) Healthy {
	return &subscribing{h, func(ctx context.Context, topic, group string, handle bus.Handler) error {
		return h.Subscribe(context.WithoutCancel(ctx), topic, group, handle)
	}}
}
