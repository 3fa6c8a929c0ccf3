package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
)

// work publishes the items of one stream. It belongs to one goroutine.
type work struct {
	*Relay
	stream   *stream
	unmarked []string // published events whose transaction is not over
	trouble  int      // failed publishes in a row
}

// run takes batch after batch.
func (w *work) run(ctx context.Context) error {
	for {
		batch, err := w.take(ctx)
		if err != nil {
			return err
		}
		for len(batch) > 0 {
			if batch, err = w.mark(ctx, batch); err != nil {
				return err
			}
			if len(batch) == 0 {
				break
			}
			if wait := w.publish(ctx, pending(batch)); wait > 0 {
				// What is published so far is confirmed before the wait.
				if batch, err = w.mark(ctx, batch); err != nil {
					return err
				}
				if len(batch) > 0 && !sleep(ctx, w.stream.failed, wait) {
					return errStopped
				}
			}
		}
	}
}

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

// claim waits until the gate is open, and reads the rows that were given back.
func (w *work) claim(ctx context.Context, batch []*item) error {
	for failures := 0; ; {
		open, err := w.ask(ctx, batch)
		wait := closedGate
		switch {
		case err == nil && open:
			return nil
		case err != nil:
			failures++
			wait = w.cfg.Probe.Delay(failures)
		}
		if !sleep(ctx, w.stream.failed, wait) {
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
			m := &it.msg
			err := tx.QueryRow(ctx, readRetried, it.retry, w.lane.Bus).Scan(&m.ID, &m.Topic, &m.Key, &m.Headers, &m.Payload)
			if it.done = errors.Is(err, pgx.ErrNoRows); err != nil && !it.done {
				return err // a row of another lane, or one that has failed again, is no error
			}
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

// pending returns the items that are to be published.
func pending(batch []*item) (left []*item) {
	for _, it := range batch {
		if !it.done {
			left = append(left, it)
		}
	}
	return left
}

// publish tries once: all that is left, or the first one alone while there is trouble.
// It returns how long to wait before the next try; 0 is at once.
func (w *work) publish(ctx context.Context, left []*item) time.Duration {
	if w.trouble > 0 {
		left = left[:1]
	}
	outcomes := w.send(ctx, left)
	var parked []refusal
	var wait time.Duration
	probe := false
	for i, err := range outcomes {
		if err == nil {
			left[i].done = true
			continue
		}
		d := w.cfg.Policy.Decide(outbox.Failure{Class: bus.Classify(err), Attempts: left[i].tries, Alone: len(left) == 1})
		switch d.Fate {
		case outbox.Parked:
			parked = append(parked, refusal{left[i], err})
		case outbox.Retried:
			left[i].tries++
			wait = max(wait, d.Delay)
		}
		probe = probe || d.Probe
	}
	w.note(probe, outcomes)
	if err := w.park(ctx, parked); err != nil {
		w.cfg.Log.WarnContext(ctx, "cdc: a refused event could not be written down", "error", err)
		probe = true // it is refused again after the wait
		w.trouble = max(w.trouble, 1)
	}
	if probe {
		wait = max(wait, w.cfg.Probe.Delay(w.trouble))
	}
	return wait
}

// note begins, goes on with or ends the probing.
func (w *work) note(probe bool, outcomes []error) {
	before := w.trouble
	if w.trouble++; !probe {
		w.trouble = 0
	}
	switch {
	case probe && before == 0:
		w.cfg.Log.Warn("cdc: the bus is in trouble, probing", "error", errors.Join(outcomes...))
	case !probe && before > 0:
		w.cfg.Log.Info("cdc: the bus is back", "after", before)
	}
}

// send publishes and returns what came of each. A publish is not cut short when ctx
// ends: broken off it may have arrived, and would have to be repeated.
func (w *work) send(ctx context.Context, left []*item) []error {
	outcomes := make([]error, len(left))
	msgs, at := make([]bus.Message, 0, len(left)), make([]int, 0, len(left))
	for i, it := range left {
		if err := w.cfg.Steps.Reach(ctx, checkpoint.BeforePublish, it.msg.ID); err != nil {
			outcomes[i] = fmt.Errorf("%w: %w", bus.ErrUnavailable, err) // it certainly was not sent
			continue
		}
		msgs, at = append(msgs, it.msg), append(at, i)
	}
	if len(msgs) == 0 {
		return outcomes
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.PublishTimeout)
	defer cancel()
	err := w.bus.Publish(bounded, msgs...)
	for n, i := range at {
		if outcomes[i] = bus.Outcome(err, n); outcomes[i] == nil {
			outcomes[i] = w.cfg.Steps.Reach(ctx, checkpoint.AfterPublish, left[i].msg.ID)
		}
	}
	return outcomes
}

// mark confirms the beginning of a batch as far as it is done, and returns the rest. A
// position is confirmed when a transaction is over: its events come together or not
// at all.
func (w *work) mark(ctx context.Context, batch []*item) ([]*item, error) {
	var upTo pglogrepl.LSN
	var marked []string
	n := 0
	for ; n < len(batch) && batch[n].done; n++ {
		it := batch[n]
		if it.msg.ID != "" {
			w.unmarked = append(w.unmarked, it.msg.ID)
		}
		if it.upTo > 0 {
			upTo, marked, w.unmarked = it.upTo, append(marked, w.unmarked...), nil
		}
	}
	for _, id := range marked {
		if err := w.cfg.Steps.Reach(ctx, checkpoint.BeforeMark, id); err != nil {
			return nil, err // nothing is confirmed: it comes again
		}
	}
	w.stream.confirm(upTo)
	if len(marked) == 0 {
		return batch[n:], nil
	}
	if err := w.stream.send(); err != nil {
		return nil, err
	}
	return batch[n:], w.reachMarked(ctx, upTo, marked)
}

const isConfirmed = `SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1`

// reachMarked lets the events pass after-mark. A position is reported without an answer,
// so who wants to hear of that step has to ask; nobody does in production.
func (w *work) reachMarked(ctx context.Context, upTo pglogrepl.LSN, marked []string) error {
	if w.cfg.Steps == nil {
		return nil
	}
	for arrived := false; !arrived; {
		err := pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, isConfirmed, w.stream.slot, upTo.String()).Scan(&arrived)
		})
		if err != nil {
			return err
		}
		if !arrived && !sleep(ctx, w.stream.failed, 2*time.Millisecond) {
			return errStopped
		}
	}
	for _, id := range marked {
		if err := w.cfg.Steps.Reach(ctx, checkpoint.AfterMark, id); err != nil {
			return err
		}
	}
	return nil
}
