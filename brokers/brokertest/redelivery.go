package brokertest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
)

func redeliveryChecks() []Check {
	return []Check{
		{Name: "redelivery-after-error", run: redeliveryAfterError},
		{Name: "redelivery-after-cancel", run: redeliveryAfterCancel},
		{Name: "redelivery-after-death", skip: networked, run: redeliveryAfterDeath},
	}
}

var errHandler = errors.New("the handler fails on purpose")

// redeliveryAfterError: the message whose handler failed comes again, and its
// neighbours come too.
func redeliveryAfterError(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	msgs := messages(safe, 20)
	var tries atomic.Int64
	act := func(_ context.Context, m bus.Message) error {
		if m.ID == msgs[6].ID && tries.Add(1) <= 2 {
			return errHandler
		}
		return nil
	}
	tr.subscribe(ctx, b, safe, mailer, "a", act)
	tr.accept(ctx, b, msgs...)
	tr.conclude(ctx, b, safe, terms{}, mailer)
	tr.redeliveredIn(msgs[6].ID)
}

// redeliveredIn checks the time between a failed delivery and the next one.
func (tr *trial) redeliveredIn(id string) {
	tr.ledger.mu.Lock()
	var last *delivery
	var worst time.Duration
	for _, d := range tr.ledger.got[mailer] {
		if d.msg.ID != id {
			continue
		}
		if last != nil && !last.ended.IsZero() {
			worst = max(worst, d.began.Sub(last.ended))
		}
		last = d
	}
	tr.ledger.mu.Unlock()
	if worst > tr.f.RedeliveryWithin+redeliverySlack {
		tr.violate(NotRedelivered, []string{id}, "the message came again only after %v, the bus declares %v",
			worst.Round(time.Millisecond), tr.f.RedeliveryWithin)
	}
}

// redeliverySlack is for a machine that is busy with other tests.
const redeliverySlack = 2 * time.Second

// redeliveryAfterCancel ends a subscription while its handler works on the first
// of some messages. Another member gets them all.
func redeliveryAfterCancel(ctx context.Context, tr *trial) {
	b, b2 := tr.ready(ctx), tr.open(ctx)
	entered := make(chan struct{})
	first := tr.subscribe(ctx, b, safe, mailer, "cancelled", blockOnce(entered, nil))
	msgs := messages(safe, 5)
	tr.accept(ctx, b, msgs...)
	if !tr.entered(entered, "the first member") {
		return
	}
	first.stop()
	tr.takesOver(ctx, b2)
}

// takesOver subscribes a second member and gives it the declared time.
func (tr *trial) takesOver(ctx context.Context, b bus.Bus) {
	began := time.Now()
	tr.subscribe(ctx, b, safe, mailer, "successor", nil)
	tr.conclude(ctx, b, safe, terms{repeats: true}, mailer)
	var late []string
	tr.ledger.mu.Lock()
	for _, d := range tr.ledger.got[mailer] {
		if d.member == "successor" && d.began.Sub(began) > tr.f.RedeliveryWithin+takeOverSlack {
			late = append(late, d.msg.ID)
		}
	}
	tr.ledger.mu.Unlock()
	if len(late) > 0 {
		tr.violate(NotRedelivered, late, "%d messages of a dead member came only after %v or more",
			len(late), tr.f.RedeliveryWithin+takeOverSlack)
	}
}

// takeOverSlack also covers the successor's joining of the group.
const takeOverSlack = 5 * time.Second

// redeliveryAfterDeath cuts the connection of a member whose handler works on a
// message: for the broker that member is dead.
func redeliveryAfterDeath(ctx context.Context, tr *trial) {
	p, through := tr.proxy()
	b2 := tr.ready(ctx)
	doomed := tr.open(ctx, through)
	entered := make(chan struct{})
	tr.subscribe(ctx, doomed, safe, mailer, "doomed", blockOnce(entered, nil))
	tr.accept(ctx, b2, messages(safe, 5)...)
	if !tr.entered(entered, "the first member") {
		return
	}
	tr.hit(ctx, tr.inject(p, fault.Rule{Kind: fault.Outage}), "death of the consumer")
	tr.takesOver(ctx, b2)
}
