// Package outage is chapter 4: an outage is not a rejection. What fails because the
// broker is away costs the event nothing; what the broker will never take is parked
// at once.
package outage

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

// PlaceOrder is chapter 3's. The INSERT that stood there in full has graduated:
// outbox.Write takes a transaction and nothing else, so that "the same transaction"
// is checked by the compiler.
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

// patient is this chapter's answer to a failed publish: it asks why it failed.
//
//	never reached the broker   costs nothing, however long; the lane probes
//	refused for good           failed at once, for a person to look at
//	nobody knows               an attempt, and a wait of 1, 2, 4, 8 s; five at most
func patient() outbox.Policy { return outbox.Patient{} }

// article is the article's answer: every failure is an attempt, and five are all.
func article() outbox.Policy { return outbox.FivePolls{} }
