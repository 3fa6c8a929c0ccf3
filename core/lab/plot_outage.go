package lab

import (
	"context"
	"errors"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// plotBrokerDown cuts and refuses, for every role, from the target to the last order.
func plotBrokerDown(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.breakBroker(ctx); err != nil {
		return err
	}
	defer r.healNetwork()
	if err := r.placeTo(ctx, r.span.to); err != nil {
		return err
	}
	if err := r.outageHasLasted(ctx); err != nil {
		return err
	}
	r.hits = r.reachedInOutage(checkpoint.BeforePublish)
	r.healNetwork()
	return nil
}

// Of the outage.
const (
	// giveUpLimit bounds the wait for a relay that parks its rows: five polls of
	// 500 ms are over long before.
	giveUpLimit = 6 * time.Second
	// shortestOutage is long enough for a relay to meet it more than once.
	shortestOutage = 2 * time.Second
)

// outageHasLasted keeps the outage up: where the relay gives up until it has done
// so, elsewhere until it has met it and for the time that was asked for.
func (r *run) outageHasLasted(ctx context.Context) error {
	if r.shared != nil {
		return errors.Join(r.outageWasMet(ctx), r.shared.enough(ctx))
	}
	if r.variant.Relay == nil {
		return r.outageLasts(ctx, r.spec.Outage)
	}
	if !r.variant.GivesUp {
		return r.outageLasts(ctx, max(shortestOutage, r.spec.Outage))
	}
	limited, cancel := context.WithTimeout(ctx, giveUpLimit)
	defer cancel()
	err := poll(limited, func() (bool, error) {
		n, err := r.count(limited, `SELECT count(*) FROM outbox WHERE status = 'pending'`)
		return n == 0, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil // the tables will show what did not fail in time
	}
	return errors.Join(err, r.outageLasts(ctx, r.spec.Outage))
}

// outageWasMet waits until the relay, if there is one, has failed to publish once,
// or the outage has ended by itself.
func (r *run) outageWasMet(ctx context.Context) error {
	if r.variant.Relay == nil {
		return nil
	}
	_, _, err := r.journal.await(ctx, r.outage.Done(), 0, func(l Line) bool {
		return l.Label == Relaying && l.Step == sayFailed
	})
	if ctx.Err() == nil {
		return nil
	}
	return err
}

func (r *run) outageLasts(ctx context.Context, d time.Duration) error {
	begin := r.outages[len(r.outages)-1].begin
	if !bus.Pause(ctx, time.Until(begin.Add(d))) {
		return ctx.Err()
	}
	return nil
}
