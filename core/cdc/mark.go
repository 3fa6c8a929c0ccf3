package cdc

import (
	"context"
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
		if !arrived && !bus.PauseUntil(ctx, w.stream.failed, 2*time.Millisecond) {
			return errStopped // a dead connection fails as well, later
		}
	}
	for _, id := range marked {
		if err := w.cfg.Steps.Reach(ctx, checkpoint.AfterMark, id); err != nil {
			return err
		}
	}
	return nil
}
