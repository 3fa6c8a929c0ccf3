// Package capture is chapter 8: the database writes a log before it writes anything
// else. Whoever reads it needs no poll, no claim and no mark.
package capture

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

// PlaceOrder is chapter 6's, to the letter. The insert below is written into the
// database's log in any case, or it would not survive a crash. The relay reads it
// there, in the order of the commits, and asks the table for nothing.
func (s *Outbox) PlaceOrder(ctx context.Context, order shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		msg := shop.OrderPlaced(order, Topic)
		// The row stays as it is written here: 'pending' for ever. How far the relay
		// has come is known to one position in the log, the slot of this bus.
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
