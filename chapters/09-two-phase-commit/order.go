// Package twophase is chapter 9: the order waits, prepared, while its event is
// published. It is the road that the article does not take.
package twophase

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop"
)

// Topic is the stream of the chapters that publish without an outbox.
const Topic = "plain"

// publishTimeout bounds how long an order waits for the broker, with its locks.
const publishTimeout = 5 * time.Second

// TwoPhase is a coordinator of our own, with two participants. One of them, the
// broker, cannot prepare: it is asked once, between the two phases of the other.
type TwoPhase struct {
	DB    shop.DB
	Bus   bus.Bus
	Steps *checkpoint.Steps
	Name  func(eventID string) string // of the prepared transaction
}

// PlaceOrder prepares the order, publishes, and says the second word.
func (s *TwoPhase) PlaceOrder(ctx context.Context, order shop.Order) error {
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
		return err // the database says no: nothing is kept, nothing was sent
	}
	// It has said yes, and keeps its word through every crash. Until it hears commit
	// or rollback nobody sees the order, and nobody gets past its locks. We alone know
	// what shall become of it, and all that we know is in this goroutine.
	err = s.publish(ctx, order)
	switch bus.Classify(err) {
	case bus.Accepted:
		err = commit(ctx, s.DB, name)
	case bus.Unavailable, bus.Rejected:
		err = refuse(ctx, s.DB, name, err) // it has certainly not been sent
	default:
		// Commit, and the event may be lost; roll back, and it may be a phantom. A
		// guess is wrong in silence: the order stays in doubt until a person looks.
		err = inDoubt(err)
	}
	if err != nil {
		return err
	}
	return s.Steps.Reach(ctx, checkpoint.AfterCommit, order.EventID)
}

// publish is the broker's only word. It cannot be asked to be ready first.
func (s *TwoPhase) publish(ctx context.Context, order shop.Order) error {
	if err := s.Steps.Reach(ctx, checkpoint.BeforePublish, order.EventID); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := s.Bus.Publish(ctx, shop.OrderPlaced(order, Topic)); err != nil {
		return err
	}
	return s.Steps.Reach(ctx, checkpoint.AfterPublish, order.EventID)
}
