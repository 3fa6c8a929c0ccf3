package twophase

import (
	"context"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop"
)

// Recovering is the same coordinator with a log. What it has decided is on disk before
// it acts, so that another one can finish what it has begun.
type Recovering struct{ TwoPhase }

// PlaceOrder prepares the order, writes the decision down, publishes, and says the
// second word.
func (s *Recovering) PlaceOrder(ctx context.Context, order shop.Order) error {
	name := s.Name(order.EventID)
	err := pgx.BeginFunc(ctx, phaseOne{s.DB, name}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, countOrder, order.UserID); err != nil {
			return err
		}
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		return s.Steps.Reach(ctx, checkpoint.BeforeCommit, order.EventID)
	})
	if err != nil {
		return err
	}
	// The event as a row, committed before it is sent, and somebody who sends it until
	// the broker has taken it: we have built an outbox, and kept two phases beside it.
	if err := decide(ctx, s.DB, name, order); err != nil {
		return s.withdraw(ctx, name, order, err)
	}
	err = s.publish(ctx, order)
	switch bus.Classify(err) {
	case bus.Accepted:
		err = s.commit(ctx, name, order.EventID)
	case bus.Unavailable, bus.Rejected:
		err = s.withdraw(ctx, name, order, err) // it has certainly not been sent
	default:
		// Nobody has to guess. It is decided: whoever recovers sends the event again,
		// which its listener must recognise, and commits.
		err = inDoubt(err)
	}
	if err != nil {
		return err
	}
	return s.Steps.Reach(ctx, checkpoint.AfterCommit, order.EventID)
}
