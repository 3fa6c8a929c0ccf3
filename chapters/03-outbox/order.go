// Package outbox is chapter 3: the event is a row, written in the transaction of
// the order. A worker sends it later, and can do so as often as it takes.
package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop"
)

// Topic is the stream of the chapters that have an outbox.
const Topic = "safe"

// Outbox writes the order and its event together. It has no bus: a broker that is
// down cannot be noticed here, and that is the point.
type Outbox struct {
	DB    shop.DB
	Steps *checkpoint.Steps
}

// PlaceOrder writes twice, but to one system, in one transaction: PostgreSQL
// keeps both rows or neither.
func (s *Outbox) PlaceOrder(ctx context.Context, order shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		msg := shop.OrderPlaced(order, Topic)
		if err := writeOutbox(ctx, tx, order.Bus, msg); err != nil {
			return err
		}
		return s.Steps.Reach(ctx, checkpoint.BeforeCommit, order.EventID)
	})
	if err != nil {
		return err
	}
	// If this process dies now, the row is there for whoever runs the worker.
	return s.Steps.Reach(ctx, checkpoint.AfterCommit, order.EventID)
}

// The status is 'pending' by default. A second row for one event breaks UNIQUE
// (event_id), so a producer that tries twice still sends once.
const insertOutbox = `
INSERT INTO outbox (event_id, bus, topic, payload) VALUES ($1, $2, $3, $4)`

// writeOutbox takes the caller's transaction, and its type says so. A parameter that
// took a pool as well would allow a dual write again, over two connections.
func writeOutbox(ctx context.Context, tx pgx.Tx, busName string, m bus.Message) error {
	_, err := tx.Exec(ctx, insertOutbox, m.ID, busName, m.Topic, string(m.Payload))
	return err
}
