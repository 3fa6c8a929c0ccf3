package lab

import (
	"context"
	"errors"
	"fmt"

	"outboxplayground/core/checkpoint"
)

// errNoHit: the run is too short for its fault. The orders are placed all the same
// and the verdict is unknown.
var errNoHit = errors.New("the fault begins after the last order")

// before places the orders ahead of the target and waits until they are settled, so
// that the fault strikes nothing that is still on its way.
func (r *run) before(ctx context.Context) error {
	if r.target() == "" {
		return errNoHit
	}
	if err := r.placeTo(ctx, r.span.from-1); err != nil {
		return err
	}
	return r.settle(ctx)
}

func plotNone(ctx context.Context, r *run) error { return r.placeTo(ctx, r.spec.Orders) }

func plotRollback(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.arm(ctx, Producing, checkpoint.BeforeCommit, doFail); err != nil {
		return err
	}
	if err := r.placeTo(ctx, r.span.from); err != nil {
		return err
	}
	r.hits = r.reached(Producing, checkpoint.BeforeCommit)
	return r.placeTo(ctx, r.spec.Orders)
}

// plotPoison: the child was told at its start which event to misdirect.
func plotPoison(ctx context.Context, r *run) error {
	if r.target() == "" {
		return errNoHit
	}
	if err := r.placeTo(ctx, r.spec.Orders); err != nil {
		return err
	}
	_, _, err := r.journal.await(ctx, nil, 0, func(l Line) bool {
		return l.Step == sayFailed && l.EventID == r.target()
	})
	r.hits = r.reached(r.publisher(), checkpoint.BeforePublish)
	return err
}

// arm tells a role what shall happen when the target reaches a step, and waits
// until it has taken note.
func (r *run) arm(ctx context.Context, label string, at checkpoint.Name, do string) error {
	p, plan := r.find(label), PlanSpec{Label: label, At: at, EventID: r.target(), Do: do}
	if p == nil {
		return fmt.Errorf("%s is not running", label)
	}
	if err := p.tell(order{Arm: &plan}); err != nil {
		return err
	}
	_, _, err := r.journal.await(ctx, p.ended, 0, func(l Line) bool { return l.Step == sayArmed && l.Text == plan.name() })
	return err
}

func (r *run) release(label string, at checkpoint.Name) error {
	hold := PlanSpec{Label: label, At: at, EventID: r.target()}
	return r.find(label).tell(order{Release: hold.name()})
}
