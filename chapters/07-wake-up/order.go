// Package wake is chapter 7: a new row says that it is there. The relay sleeps until
// it is woken, and still looks now and then: what nobody heard is sent all the same.
package wake

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

// PlaceOrder is chapter 6's, to the letter. It notifies nobody: a trigger of the table
// does, so that no producer can forget it, and Postgres delivers the notification
// when the transaction has committed and never otherwise.
func (s *Outbox) PlaceOrder(ctx context.Context, order shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		msg := shop.OrderPlaced(order, Topic)
		// The INSERT in here fires the trigger, once for the statement. Until COMMIT
		// nothing leaves; after a ROLLBACK nothing ever does.
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
