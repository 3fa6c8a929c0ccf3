package lab

import (
	"context"
	"time"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
)

// slowness is what broker-slow adds to every reply.
const slowness = 200 * time.Millisecond

func plotBrokerSlow(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.breakNetwork(fault.Rule{Role: "bus", Kind: fault.Delay, Delay: slowness, TTL: fault.MaxTTL}); err != nil {
		return err
	}
	defer r.healNetwork()
	if err := r.placeTo(ctx, r.span.to); err != nil {
		return err
	}
	err := r.settle(ctx)
	r.hits = r.reachedInOutage(checkpoint.BeforePublish)
	r.healNetwork()
	return err
}

func plotDBDown(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.breakNetwork(fault.Rule{Role: "db", Kind: fault.Outage, TTL: fault.MaxTTL}); err != nil {
		return err
	}
	defer r.healNetwork()
	if err := r.placeTo(ctx, r.span.to); err != nil {
		return err
	}
	r.hits = r.refusedInSpan
	r.healNetwork()
	return r.placeTo(ctx, r.spec.Orders)
}

// refusedInSpan counts the affected orders that met an outage of the database: one that
// was committed all the same did not meet it.
func (r *run) refusedInSpan() (n int) {
	for _, answer := range r.answers[r.span.from-1 : r.span.to] {
		if answer == refused {
			n++
		}
	}
	return n
}

// publisher is the role that talks to the broker.
func (r *run) publisher() string {
	if r.variant.Relay != nil {
		return Relaying
	}
	return Producing
}

// swallowCut is how long after the first lost byte the connection is cut.
const swallowCut = 200 * time.Millisecond

func plotAckLost(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.breakNetwork(fault.Rule{Role: "bus/" + r.publisher(), Kind: fault.SwallowReplies,
		Arm: []byte(r.target()), CutAfter: swallowCut, Once: true, TTL: time.Minute}); err != nil {
		return err
	}
	defer r.healNetwork()
	if err := r.placeTo(ctx, r.span.from); err != nil {
		return err
	}
	if _, _, err := r.journal.await(ctx, nil, 0, func(l Line) bool {
		return l.Step == sayFailed && l.EventID == r.target()
	}); err != nil {
		return err
	}
	r.hits = r.reached(r.publisher(), checkpoint.BeforePublish)
	r.healNetwork()
	if err := r.reconnected(ctx, r.publisher()); err != nil {
		return err
	}
	return r.placeTo(ctx, r.spec.Orders)
}

// reconnected waits until a role can reach its broker again after a cut. The fault
// is one lost acknowledgement; orders placed while the client still reconnects
// would be lost to an outage, which is another fault.
func (r *run) reconnected(ctx context.Context, label string) error {
	p, from := r.find(label), len(r.journal.all())
	if err := p.tell(order{Reconnect: label}); err != nil {
		return err
	}
	_, _, err := r.journal.await(ctx, p.ended, from, func(l Line) bool {
		return l.Label == label && l.Step == sayConnected
	})
	return err
}

// breakBroker cuts the broker off from every role, or waits for the outage that
// several runs share.
func (r *run) breakBroker(ctx context.Context) (err error) {
	if r.shared == nil {
		return r.breakNetwork(fault.Rule{Role: "bus", Kind: fault.Outage, TTL: fault.MaxTTL})
	}
	r.outage, err = r.shared.begin(ctx, r)
	r.outages = append(r.outages, outageSpan{what: r.fault.Name, begin: time.Now()})
	return err
}

func (r *run) breakNetwork(rule fault.Rule) (err error) {
	rule.Name = r.fault.Name
	r.outage, err = r.proxy.Inject(rule)
	r.outages = append(r.outages, outageSpan{what: r.fault.Name, begin: time.Now()})
	return err
}

// healNetwork ends the fault and notes what it did. Twice is harmless.
func (r *run) healNetwork() {
	if r.outage == nil {
		return
	}
	r.outage.Lift()
	o := &r.outages[len(r.outages)-1]
	o.end = time.Now()
	r.report.Ms = float64(o.end.Sub(o.begin).Microseconds()) / 1000
	r.report.Network = r.outage.Hits()
	r.outage = nil
}
