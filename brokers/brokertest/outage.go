package brokertest

import (
	"context"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
)

func outageChecks() []Check {
	return []Check{
		{Name: "not-connected", skip: networked, run: notConnected},
		{Name: "opened-in-an-outage", skip: networked, run: openedInAnOutage},
		{Name: "confirm-lost", skip: networked, run: func(ctx context.Context, tr *trial) {
			tr.confirmLost(ctx, fault.Rule{Kind: fault.SwallowReplies})
		}},
		{Name: "confirm-lost-then-cut", skip: networked, run: func(ctx context.Context, tr *trial) {
			tr.confirmLost(ctx, fault.Rule{Kind: fault.SwallowReplies, CutAfter: 100 * time.Millisecond, Once: true})
		}},
		{Name: "deadline", skip: networked, run: deadline},
		{Name: "cuts-make-no-repeats", skip: networked, run: cutsMakeNoRepeats},
		{Name: "subscriber-reconnects", skip: networked, run: subscriberReconnects},
	}
}

// notConnected: while the line is down a publish is unavailable at once, and
// never arrives. The first one after the cut may not know yet that it is down.
func notConnected(ctx context.Context, tr *trial) {
	p, through := tr.proxy()
	b := tr.ready(ctx, through)
	tr.accept(ctx, b, message(safe, 0))
	outage := tr.inject(p, fault.Rule{Kind: fault.Outage})
	tr.unavailableSoon(ctx, b)
	tr.unavailableAtOnce(ctx, b)
	tr.hit(ctx, outage, "outage")
	outage.Lift()
	tr.heals(ctx, b)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	tr.conclude(ctx, b, safe, terms{}, mailer)
}

// unavailableSoon publishes until the bus has noticed.
func (tr *trial) unavailableSoon(ctx context.Context, b bus.Bus) {
	ok := poll(ctx, noticeWithin, func() bool {
		return bus.Classify(tr.probe(ctx, b, &pace{}, message(safe, 0))) == bus.Unavailable
	})
	if !ok {
		tr.violate(WrongClass, nil, "publishes are not reported unavailable within %v of the cut", noticeWithin)
	}
}

const noticeWithin = 5 * time.Second

// unavailableAtOnce wants that answer every time, for one message and for many.
func (tr *trial) unavailableAtOnce(ctx context.Context, b bus.Bus) {
	p := &pace{}
	for range 3 {
		m := message(safe, 1)
		tr.class(m.ID, tr.probe(ctx, b, p, m), "a publish while not connected", bus.Unavailable)
	}
	many := messages(safe, 50)
	err := tr.probe(ctx, b, p, many...)
	tr.within(p, atOnce, "a publish while not connected")
	for i, m := range many {
		tr.class(m.ID, bus.Outcome(err, i), "one of 50 while not connected", bus.Unavailable)
	}
}

// probe publishes where nothing can be accepted.
func (tr *trial) probe(ctx context.Context, b bus.Bus, p *pace, msgs ...bus.Message) error {
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	began := time.Now()
	err := tr.ledger.publish(ctx, b, msgs...)
	p.lap(began)
	tr.notAccepted(msgs, err, "the broker cannot be reached")
	return err
}

// probeDeadline is longer than atOnce, so that a bus that waits shows it.
const probeDeadline = 3 * time.Second

func (tr *trial) notAccepted(msgs []bus.Message, err error, why string) {
	for i, m := range msgs {
		if out := bus.Outcome(err, i); out == nil {
			tr.class(m.ID, out, "a publish while "+why, bus.Unavailable, bus.Ambiguous)
			return
		}
	}
}

// openedInAnOutage: Open may fail, or the bus waits for its broker; never hangs.
func openedInAnOutage(ctx context.Context, tr *trial) {
	tr.ready(ctx) // makes the topic, on a good line
	p, through := tr.proxy()
	outage := tr.inject(p, fault.Rule{Kind: fault.Outage})
	began := time.Now()
	b, err := tr.connect(ctx, through)
	tr.within(since(began), noticeWithin, "Open while the broker cannot be reached")
	if err != nil {
		tr.hit(ctx, outage, "outage")
		return
	}
	tr.buses = append(tr.buses, b)
	tr.unavailableAtOnce(ctx, b)
	tr.hit(ctx, outage, "outage")
	outage.Lift()
	tr.heals(ctx, b)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	tr.conclude(ctx, b, safe, terms{}, mailer)
}

// confirmLost lets the publish through and swallows the broker's answer: the
// message arrives, and the publisher cannot know.
func (tr *trial) confirmLost(ctx context.Context, r fault.Rule) {
	p, through := tr.proxy()
	b, b2 := tr.ready(ctx, through), tr.open(ctx)
	tr.accept(ctx, b, message(safe, 0))
	m := message(safe, 1)
	r.Arm = []byte(m.ID)
	f := tr.inject(p, r)
	within, cancel := context.WithTimeout(ctx, confirmDeadline)
	defer cancel()
	began := time.Now()
	err := tr.ledger.publish(within, b, m)
	tr.within(since(began), confirmDeadline+deadlineSlack, "a publish whose confirm is lost")
	tr.class(m.ID, err, "a publish whose confirm is lost", bus.Ambiguous)
	tr.hit(ctx, f, "lost confirm")
	f.Lift()
	tr.heals(ctx, b)
	tr.subscribe(ctx, b2, safe, mailer, "a", nil)
	tr.conclude(ctx, b2, safe, terms{}, mailer)
	arrived := tr.ledger.await(ctx, time.Millisecond, func() bool {
		return tr.ledger.deliveries(mailer, func(d *delivery) bool { return d.msg.ID == m.ID }) > 0
	})
	if !arrived {
		tr.violate(Lost, []string{m.ID}, "the request reached the broker, but the message never came")
	}
}

const confirmDeadline = 1500 * time.Millisecond

// deadline: in a black hole a publish returns when its context says so.
func deadline(ctx context.Context, tr *trial) {
	p, through := tr.proxy()
	b, b2 := tr.ready(ctx, through), tr.open(ctx)
	tr.accept(ctx, b, message(safe, 0))
	stall := tr.inject(p, fault.Rule{Kind: fault.Stall})
	quickest := &pace{}
	for range 2 {
		m, began := message(safe, 1), time.Now()
		within, cancel := context.WithTimeout(ctx, deadlineIs)
		err := tr.ledger.publish(within, b, m)
		cancel()
		quickest.lap(began)
		tr.class(m.ID, err, "a publish in a black hole", bus.Ambiguous, bus.Unavailable)
	}
	tr.within(quickest, deadlineIs+deadlineSlack, "a publish with a deadline of 500 ms in a black hole")
	tr.hit(ctx, stall, "stall")
	stall.Lift()
	tr.heals(ctx, b)
	tr.subscribe(ctx, b2, safe, mailer, "a", nil)
	tr.conclude(ctx, b2, safe, terms{}, mailer)
}

const deadlineIs = 500 * time.Millisecond

// cutsMakeNoRepeats cuts the publisher's connection again and again while nobody
// consumes. Every id was published once, so each may arrive once at most: a
// second one means that the driver sends again by itself.
func cutsMakeNoRepeats(ctx context.Context, tr *trial) {
	p, through := tr.proxy()
	b, b2 := tr.ready(ctx, through), tr.open(ctx)
	stop := tr.trickle(ctx, b, 5, func(time.Time, error) {})
	for range 4 {
		tr.more(ctx, 30, "after a cut")
		tr.inject(p, fault.Rule{Kind: fault.Cut})
	}
	tr.more(ctx, 30, "after the last cut")
	stop()
	tr.subscribe(ctx, b2, safe, mailer, "a", nil)
	tr.conclude(ctx, b2, safe, terms{}, mailer)
}

// subscriberReconnects cuts under a subscription, which goes on by itself.
func subscriberReconnects(ctx context.Context, tr *trial) {
	p, through := tr.proxy()
	b := tr.ready(ctx)
	consumer := tr.open(ctx, through)
	s := tr.subscribe(ctx, consumer, safe, mailer, "a", nil)
	for n := range 2 {
		tr.accept(ctx, b, messages(safe, 20)...)
		tr.settle(ctx, b, safe, mailer)
		if n == 0 {
			tr.hit(ctx, tr.inject(p, fault.Rule{Kind: fault.Cut}), "cut of the consumer")
		}
	}
	tr.conclude(ctx, b, safe, terms{repeats: true}, mailer)
	s.stop()
}
