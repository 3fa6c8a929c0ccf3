package brokertest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"outboxplayground/core/bus"
)

func closeChecks() []Check {
	return []Check{
		{Name: "cancel-ends-subscribe", run: cancelEndsSubscribe},
		{Name: "close-twice", run: closeTwice},
		{Name: "close-while-publishing", run: closeWhilePublishing},
		{Name: "close-while-subscribed", run: closeWhileSubscribed},
	}
}

// cancelEndsSubscribe cancels an idle subscription and one in its handler; both
// return nil soon. The messages stay good for a later one.
func cancelEndsSubscribe(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	idle := tr.subscribe(ctx, b, safe, mailer, "idle", nil)
	tr.accept(ctx, b, message(safe, 0))
	tr.settle(ctx, b, safe, mailer)
	idle.stop()
	entered := make(chan struct{})
	busy := tr.subscribe(ctx, b, safe, mailer, "busy", blockOnce(entered, nil))
	tr.accept(ctx, b, message(safe, 1))
	if tr.entered(entered, "a member that came after another had left") {
		busy.stop()
	}
	tr.subscribe(ctx, b, safe, mailer, "last", nil)
	tr.conclude(ctx, b, safe, terms{repeats: true}, mailer)
}

// closeTwice: after Close a publish is unavailable at once, and Subscribe returns.
func closeTwice(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	tr.accept(ctx, b, message(safe, 0))
	tr.close(b)
	tr.close(b)
	tr.refusesAfterClose(ctx, b)
	s := tr.subscribe(ctx, b, safe, mailer, "after", nil)
	s.stop()
	if tr.f.Forgets {
		return
	}
	b2, err := tr.connect(ctx)
	tr.must(err, "Open after Close")
	tr.buses = append(tr.buses, b2)
	tr.subscribe(ctx, b2, safe, mailer, "a", nil)
	tr.conclude(ctx, b2, safe, terms{}, mailer)
}

// atOnce is the time for an answer that needs no broker.
const atOnce = 1500 * time.Millisecond

// closeWhilePublishing closes under ten publishers. All of them get an answer,
// and what was accepted is there when the bus is opened again.
func closeWhilePublishing(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	var publishers sync.WaitGroup
	var closed atomic.Bool
	for range 10 {
		publishers.Go(func() { tr.guard(func() { tr.publishUntilRefused(ctx, b, &closed) }) })
	}
	tr.ledger.await(ctx, publishWithin, func() bool { return len(tr.ledger.order) > 50 })
	tr.close(b)
	closed.Store(true)
	if !returns(&publishers, closeWithin) {
		tr.violate(Hangs, nil, "a Publish under way did not return within %v of Close", closeWithin)
		return
	}
	if tr.f.Forgets {
		return
	}
	b2, err := tr.connect(ctx)
	tr.must(err, "Open after Close")
	tr.buses = append(tr.buses, b2)
	tr.subscribe(ctx, b2, safe, mailer, "a", nil)
	tr.conclude(ctx, b2, safe, terms{}, mailer)
}

// publishUntilRefused stops at the first failure, or when the bus is closed; a
// failure because of Close may be of any kind but rejected.
func (tr *trial) publishUntilRefused(ctx context.Context, b bus.Bus, closed *atomic.Bool) {
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	for n := 0; !closed.Load(); n++ {
		m := message(safe, n)
		if err := tr.ledger.publish(ctx, b, m); err != nil {
			tr.class(m.ID, err, "a publish under way at Close", bus.Unavailable, bus.Ambiguous)
			break
		}
	}
	if closed.Load() {
		tr.refusesAfterClose(ctx, b)
	}
}

// refusesAfterClose wants a publish on a closed bus unavailable, at once.
func (tr *trial) refusesAfterClose(ctx context.Context, b bus.Bus) {
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	m, began := message(safe, 1), time.Now()
	tr.class(m.ID, tr.ledger.publish(ctx, b, m), "a publish after Close", bus.Unavailable)
	tr.within(since(began), atOnce, "a publish after Close")
}

func returns(wg *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// closeWhileSubscribed: Close gives back what is not acknowledged.
func closeWhileSubscribed(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	entered := make(chan struct{})
	s := tr.subscribe(ctx, b, safe, mailer, "closed", blockOnce(entered, nil))
	tr.accept(ctx, b, messages(safe, 3)...)
	if !tr.entered(entered, "the group") {
		return
	}
	tr.close(b)
	s.stop()
	if tr.f.Forgets {
		return
	}
	b2, err := tr.connect(ctx)
	tr.must(err, "Open after Close")
	tr.buses = append(tr.buses, b2)
	tr.takesOver(ctx, b2)
}
