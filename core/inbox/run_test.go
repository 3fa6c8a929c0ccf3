package inbox_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/pg/pgtest"
)

func askAll(t *testing.T, db inbox.Beginner, want int64) {
	t.Helper()
	if n, err := inbox.ReplayAll(t.Context(), db, inbox.Filter{}, "anna"); err != nil || n != want {
		t.Fatalf("%d replays, %v, want %d", n, err, want)
	}
}

// The first of two replays ends its session each time: the second is run all the same.
func TestAReplayThatDoesNotEndHoldsUpNoOther(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	_, first, m := dead(t, pool, f)
	dead(t, pool, f)
	askAll(t, pool, 2)
	o := once(pool, func(ctx context.Context, tx pgx.Tx, got bus.Message) error {
		if got.ID == m.ID {
			return executes(`DO $$ BEGIN `+terminate+` END $$`)(ctx, tx, got)
		}
		return email(ctx, tx, got)
	})
	if err := o.Replays(t.Context()); err == nil {
		t.Error("no error for the replay that did not end")
	}
	if l := one(t, pool, inbox.Requested); l.ID != first {
		t.Errorf("letter %d is still requested, want %d", l.ID, first)
	}
	one(t, pool, inbox.Replayed)
	counted(t, pool, 1, 2, 2)
}

// When the database is away one transaction finds that out, not one for each replay.
func TestReplaysStopWhileTheDatabaseIsAway(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	for range 3 {
		dead(t, pool, f)
	}
	askAll(t, pool, 3)
	db := &away{Pool: pool}
	db.refusals.Store(100)
	if err := once(db, email).Replays(t.Context()); err == nil || db.refusals.Load() != 99 {
		t.Errorf("%v after %d transactions, want an error after one", err, 100-db.refusals.Load())
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM dead_letters WHERE status = 'requested'`); n != 3 {
		t.Errorf("%d replays are left, want 3", n)
	}
}

// Without an id nothing recognises a repeat: neither the inbox nor the replays.
func TestAMessageWithoutAnIDHasALetterForEachDelivery(t *testing.T) {
	pool := schema(t)
	var calls atomic.Int64
	o := once(pool, func(context.Context, pgx.Tx, bus.Message) error { calls.Add(1); return nil })
	for range 2 {
		handle(t, o, bus.Message{ID: "order 17", Topic: "safe"})
	}
	askAll(t, pool, 2)
	if err := o.Replays(t.Context()); err != nil || calls.Load() != 2 {
		t.Errorf("%d effects, %v, want two", calls.Load(), err)
	}
}
