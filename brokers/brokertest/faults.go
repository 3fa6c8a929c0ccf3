package brokertest

import (
	"context"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
)

// broken is the role of the connections that the proxy breaks; other buses of a
// trial do not go through it.
const broken = "broken"

// proxy starts a fault proxy for this trial, and returns the config change that
// leads a bus through it.
func (tr *trial) proxy() (*fault.Proxy, func(*bus.Config)) {
	p, err := fault.Listen()
	tr.must(err, "fault proxy")
	tr.cleanup = append(tr.cleanup, func() { _ = p.Close() })
	return p, func(c *bus.Config) { c.Dial = p.Dialer(broken) }
}

// inject puts a fault on the broken connections.
func (tr *trial) inject(p *fault.Proxy, r fault.Rule) *fault.Injected {
	r.Role, r.TTL = broken, time.Minute
	f, err := p.Inject(r)
	tr.must(err, "fault "+string(r.Kind))
	return f
}

// hit makes sure that a fault did something; otherwise the check proves nothing.
func (tr *trial) hit(ctx context.Context, f *fault.Injected, what string) {
	if !poll(ctx, time.Second, func() bool { return f.Hits() > 0 }) {
		tr.violate(Failed, nil, "%s: the fault hit nothing; does the bus use Config.Dial?", what)
	}
}

// heals waits until the bus accepts again, by itself.
func (tr *trial) heals(ctx context.Context, b bus.Bus) {
	ok := poll(ctx, tr.f.Patience, func() bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return tr.ledger.publish(ctx, b, message(safe, 0)) == nil
	})
	if !ok {
		tr.violate(NotHealed, nil, "no publish was accepted within %v of the broker's return", tr.f.Patience)
	}
}

// trickle publishes small batches one after the other until it is stopped, each
// with a deadline of a second, and tells watch about each. Stop waits for it.
func (tr *trial) trickle(ctx context.Context, b bus.Bus, batch int, watch func(began time.Time, err error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			tr.guard(func() { tr.drop(context.WithoutCancel(ctx), b, batch, watch) })
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (tr *trial) drop(ctx context.Context, b bus.Bus, batch int, watch func(time.Time, error)) {
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	began := time.Now()
	err := tr.ledger.publish(within, b, messages(safe, batch)...)
	watch(began, err)
}

// deadlineSlack is what a publish may take beyond its deadline.
const deadlineSlack = time.Second

// more waits until so many further messages are accepted, however long that takes,
// as long as one is accepted now and then.
func (tr *trial) more(ctx context.Context, n int, when string) {
	accepted := func() int { return len(tr.ledger.ids(bus.Accepted)) }
	want, last, since := accepted()+n, -1, time.Now()
	poll(ctx, checkTimeout, func() bool {
		if n := accepted(); n != last {
			last, since = n, time.Now()
		}
		return last >= want || time.Since(since) > tr.f.Patience
	})
	if last < want {
		tr.violate(NotHealed, nil, "%s: no publish was accepted for %v", when, tr.f.Patience)
	}
}
