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

const readRetried = `
SELECT event_id::text, topic, key, headers, payload FROM outbox
WHERE id = $1 AND bus = $2 AND status = 'pending'`

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
			m, headers := &it.msg, []byte(nil)
			err := tx.QueryRow(ctx, readRetried, it.retry, w.lane.Bus).Scan(&m.ID, &m.Topic, &m.Key, &headers, &m.Payload)
			if it.done = errors.Is(err, pgx.ErrNoRows); err != nil && !it.done {
				return err // a row of another lane, or one that has failed again, is no error
			}
			it.readHeaders(headers)
		}
		return nil
	})
	return open, err
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
