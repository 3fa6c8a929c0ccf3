// Package idempotent is chapter 6: an event may come twice, its email goes out once.
// The listener writes down what it has handled, in the transaction of the effect.
package idempotent

import (
	"context"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
	"outboxplayground/core/shop"
)

// Topic is the stream of the chapters that have an outbox.
const Topic = "safe"

// Outbox writes the order and its event together.
type Outbox struct {
	DB    shop.DB
	Steps *checkpoint.Steps
}

// PlaceOrder is chapter 5's, to the letter: the producer's side has done what it can
// do. A relay that dies between publish and mark sends again, and a zombie's publish
// cannot be called back. At least once is the most that a producer can promise.
func (s *Outbox) PlaceOrder(ctx context.Context, order shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		// The message's id is the event's. However often it is published, it stays
		// the same: it is all that the listener needs to recognise a repeat.
		msg := shop.OrderPlaced(order, Topic)
		if err := outbox.Write(ctx, tx, order.Bus, msg); err != nil {
			return err
		}
		return s.Steps.Reach(ctx, checkpoint.BeforeCommit, order.EventID)
	})
	if err != nil {
		return err
	}
	return s.Steps.Reach(ctx, checkpoint.AfterCommit, order.EventID)
}
