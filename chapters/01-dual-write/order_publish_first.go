package dualwrite

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop"
)

// PublishFirst publishes inside the open transaction, before COMMIT: the event is
// safe, so we think, if only it leaves first.
type PublishFirst struct {
	DB    shop.DB
	Bus   bus.Bus
	Steps *checkpoint.Steps
}

// PlaceOrder publishes before it commits. A broker that is down refuses the order
// cleanly; everything that goes wrong later tells the world of an order that
// never was.
func (s *PublishFirst) PlaceOrder(ctx context.Context, order shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		if err := s.publish(ctx, order); err != nil {
			return err // rolls back; but an event whose answer was lost is out there
		}
		// The email is on its way. The order is not in the database yet, and the
		// broker takes nothing back.
		return s.Steps.Reach(ctx, checkpoint.BeforeCommit, order.EventID)
	})
	if err != nil {
		return err
	}
	return s.Steps.Reach(ctx, checkpoint.AfterCommit, order.EventID)
}

// publish is now the first write, and holds a transaction open while it waits.
func (s *PublishFirst) publish(ctx context.Context, order shop.Order) error {
	if err := s.Steps.Reach(ctx, checkpoint.BeforePublish, order.EventID); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := s.Bus.Publish(ctx, shop.OrderPlaced(order, Topic)); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return s.Steps.Reach(ctx, checkpoint.AfterPublish, order.EventID)
}
