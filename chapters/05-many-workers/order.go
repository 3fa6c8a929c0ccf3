// Package workers is chapter 5: many workers, on many machines, share one outbox.
// A lease says whose a row is; a token says whose it still is.
package workers

import (
	"context"
	"time"

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

// PlaceOrder is chapter 4's, to the letter. How many workers there are is none of
// the producer's business.
func (s *Outbox) PlaceOrder(ctx context.Context, order shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
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

// lease is short here, so that a reader does not wait long for the rows of a worker
// that was killed. In production it should outlast a slow publish: half a minute.
const lease = 3 * time.Second

// queue is what changes in this chapter: chapter 4 had outbox.Plain, which forgets
// whose a row is as soon as it is claimed.
func queue() outbox.Queue { return outbox.Leased{For: lease} }
