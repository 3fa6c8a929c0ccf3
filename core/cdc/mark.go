package cdc

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

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
			upTo, marked, w.unmarked = max(upTo, it.upTo), append(marked, w.unmarked...), nil
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
	if err := w.awaitConfirmed(ctx, upTo); err != nil {
		return err
	}
	for _, id := range marked {
		if err := w.cfg.Steps.Reach(ctx, checkpoint.AfterMark, id); err != nil {
			return err
		}
	}
	return nil
}

// awaitConfirmed waits as long as for any answer of the server. The connection may be
// dead and still look alive: who reads it waits for room, which only this goroutine makes.
func (w *work) awaitConfirmed(ctx context.Context, upTo pglogrepl.LSN) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*w.cfg.Term, errUnheard)
	defer cancel()
	for {
		var arrived bool
		err := pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, isConfirmed, w.stream.slot, upTo.String()).Scan(&arrived)
		})
		if err != nil || arrived {
			return err
		}
		if !bus.PauseUntil(ctx, w.stream.failed, 2*time.Millisecond) {
			return errors.Join(context.Cause(ctx), errStopped)
		}
	}
}
