package cdc

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// take waits for an item and adds what has come meanwhile. Where there is something to
// publish it asks whether that is allowed, and lets each event pass claimed.
func (w *work) take(ctx context.Context) ([]*item, error) {
	var batch []*item
	select {
	case <-ctx.Done():
		return nil, errStopped
	case <-w.stream.failed:
		return nil, errStopped
	case it := <-w.stream.items:
		batch = append(batch, it)
	}
	for events := len(pending(batch)); events < w.cfg.Batch && len(w.stream.items) > 0; {
		it := <-w.stream.items // nobody else takes any
		if batch = append(batch, it); !it.done {
			events++
		}
	}
	if len(pending(batch)) == 0 {
		return batch, nil
	}
	if err := w.claim(ctx, batch); err != nil {
		return nil, err
	}
	for _, it := range pending(batch) {
		if err := w.cfg.Steps.Reach(ctx, checkpoint.Claimed, it.msg.ID); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// claim waits until the gate is open, reads the rows that were given back, and parks what
// nobody can read.
func (w *work) claim(ctx context.Context, batch []*item) error {
	for failures := 0; ; {
		open, err := w.ask(ctx, batch)
		if err == nil && open {
			err = w.park(ctx, unreadable(batch))
		}
		wait := closedGate
		switch {
		case err == nil && open:
			return nil
		case err != nil:
			failures++
			wait = w.cfg.Probe.Delay(failures)
		}
		if !bus.PauseUntil(ctx, w.stream.failed, wait) {
			return errors.Join(err, errStopped)
		}
	}
}

// A COMMIT is in the log a moment before anybody sees what it wrote: without the lock the
// row could still be failed, and the retry would be taken for one that is over. The lock
// waits for the transaction that we have read of. It stands on whatever the row is, or
// else the one that is still failed would not be waited for.
const readRetried = `
SELECT status, event_id::text, topic, key, headers, payload FROM outbox
WHERE id = $1 AND bus = $2 FOR SHARE`

func (w *work) ask(ctx context.Context, batch []*item) (open bool, err error) {
	if w.cfg.Gate == nil && !hasRetry(batch) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statement)
	defer cancel()
	err = pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
		if open = true; w.cfg.Gate != nil {
			if open, err = w.cfg.Gate(ctx, tx); err != nil || !open {
				return err
			}
		}
		for _, it := range pending(batch) {
			if it.retry == 0 {
				continue
			}
			if err := w.readRetried(ctx, tx, it); err != nil {
				return err
			}
		}
		return nil
	})
	return open, err
}

// readRetried reads the row of a retry. One of another lane, or one that has failed again,
// is no error, and nothing to publish.
func (w *work) readRetried(ctx context.Context, tx pgx.Tx, it *item) error {
	m, status, headers := &it.msg, "", []byte(nil)
	err := tx.QueryRow(ctx, readRetried, it.retry, w.lane.Bus).Scan(&status, &m.ID, &m.Topic, &m.Key, &headers, &m.Payload)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	it.done = status != "pending"
	it.readHeaders(headers)
	return nil
}

func hasRetry(batch []*item) bool {
	for _, it := range batch {
		if it.retry != 0 {
			return true
		}
	}
	return false
}

// unreadable returns the items that are no events.
func unreadable(batch []*item) (bad []refusal) {
	for _, it := range pending(batch) {
		if it.bad != nil {
			bad = append(bad, refusal{item: it, why: it.bad, attempts: it.tries})
		}
	}
	return bad
}

// pending returns the items that are to be published.
func pending(batch []*item) (left []*item) {
	for _, it := range batch {
		if !it.done {
			left = append(left, it)
		}
	}
	return left
}
