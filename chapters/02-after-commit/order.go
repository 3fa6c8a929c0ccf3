// Package aftercommit is chapter 2: the dispatch is registered inside the
// transaction and fires after its commit, as frameworks offer it.
package aftercommit

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

// AfterCommit is what DispatchAfterCommit, transaction.on_commit and their kin do.
type AfterCommit struct {
	DB    shop.DB
	Bus   bus.Bus
	Steps *checkpoint.Steps
	Log   *slog.Logger
}

// PlaceOrder writes the order and promises an event; the promise is kept in
// memory until the commit has happened.
func (s *AfterCommit) PlaceOrder(ctx context.Context, order shop.Order) error {
	var afterCommit []func() // the framework's list, one for each transaction
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, order); err != nil {
			return err
		}
		afterCommit = append(afterCommit, func() { s.dispatch(ctx, order) })
		return s.Steps.Reach(ctx, checkpoint.BeforeCommit, order.EventID)
	})
	if err != nil {
		return err // and the list is dropped: a rollback can no longer send anything
	}
	// The list is a variable of this process. Nothing on any disk knows of it.
	if err := s.Steps.Reach(ctx, checkpoint.AfterCommit, order.EventID); err != nil {
		return err
	}
	for _, dispatch := range afterCommit {
		dispatch()
	}
	return nil
}

// dispatch runs when the order is final, so its failure has nobody to go to.
func (s *AfterCommit) dispatch(ctx context.Context, order shop.Order) {
	if err := s.publish(ctx, order); err != nil {
		s.Log.DebugContext(ctx, "dispatch failed after commit", "error", err)
	}
}

// publish is the same second write as in chapter 1, at a better moment.
func (s *AfterCommit) publish(ctx context.Context, order shop.Order) error {
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
