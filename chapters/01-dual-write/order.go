// Package dualwrite is chapter 1: an order is written to the database, its event
// to the broker, and nothing holds the two together.
package dualwrite

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop"
)

// Topic is the stream of the chapters that publish without an outbox.
const Topic = "plain"

// publishTimeout bounds how long a customer waits for the broker.
const publishTimeout = 5 * time.Second

// WriteFirst writes the order, then publishes. It is what almost everyone writes.
type WriteFirst struct {
	DB    shop.DB
	Bus   bus.Bus
	Steps *checkpoint.Steps
	Log   *slog.Logger
}

// PlaceOrder writes the order and tells the bus. Two systems, two writes.
func (s *WriteFirst) PlaceOrder(ctx context.Context, order shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		return s.Steps.Reach(ctx, checkpoint.BeforeCommit, order.EventID)
	})
	if err != nil {
		return err // nothing was kept, and the customer is told so
	}
	// From here on the order exists. If this process dies now, nobody will ever
	// know that an event was meant to follow.
	if err := s.Steps.Reach(ctx, checkpoint.AfterCommit, order.EventID); err != nil {
		return err
	}
	if err := s.publish(ctx, order); err != nil {
		// What could we answer? "No" would be a lie, for the order is kept. "Try
		// again" would order twice. So the customer reads 201, and the event is
		// gone. A debug line that nobody switches on is all that is left of it.
		s.Log.DebugContext(ctx, "publish failed after commit", "error", err)
	}
	return nil
}

// publish is the second write. The broker may be down, and it may take the event
// and lose the answer: an error here does not even mean that nothing arrived.
func (s *WriteFirst) publish(ctx context.Context, order shop.Order) error {
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
