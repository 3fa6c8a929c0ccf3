package capture

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop"
)

// TableLess writes the event into the log and nowhere else.
type TableLess struct {
	DB     shop.DB
	Schema string
	Steps  *checkpoint.Steps
}

// true: the message belongs to the transaction. It is delivered at the commit, in its
// place among the others, and a rollback takes it back.
const emit = `SELECT pg_logical_emit_message(true, $1, $2::text)`

// PlaceOrder does without the table: if the relay reads the log anyway, an outbox is
// one write more than is needed. No row also means nothing to look at, no UNIQUE that
// refuses a second event of one id, and no second chance once the slot is gone.
func (s *TableLess) PlaceOrder(ctx context.Context, order shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		content, err := json.Marshal(shop.OrderPlaced(order, Topic))
		if err != nil {
			return err
		}
		// The prefix is the address: no publication filters messages.
		prefix := s.Schema + "." + order.Bus
		if _, err := tx.Exec(ctx, emit, prefix, string(content)); err != nil {
			return err
		}
		return s.Steps.Reach(ctx, checkpoint.BeforeCommit, order.EventID)
	})
	if err != nil {
		return err
	}
	return s.Steps.Reach(ctx, checkpoint.AfterCommit, order.EventID)
}
