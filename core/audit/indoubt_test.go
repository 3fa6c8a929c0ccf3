package audit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/audit"
	"outboxplayground/core/pg/pgtest"
)

// doubt leaves an order prepared, and with an effect its event handled.
func doubt(t *testing.T, pool *pgxpool.Pool, schema string, handled bool) string {
	t.Helper()
	id := uuid.NewString()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, tx, anOrder, id, "0s")
	mustExec(t, tx, `PREPARE TRANSACTION '`+schema+`.`+id+`'`)
	_ = tx.Rollback(t.Context()) // only gives the connection back
	if handled {
		mustExec(t, pool, anEffect, id)
	}
	return id
}

func TestAnOrderInDoubt(t *testing.T) {
	pool, schema := pgtest.Alone(t, 9)
	handled, not := doubt(t, pool, schema, true), doubt(t, pool, schema, false)
	t.Cleanup(func() { // before the schema is dropped, which would wait for their locks
		for _, id := range []string{handled, not} {
			_, _ = pool.Exec(context.Background(), `ROLLBACK PREPARED '`+schema+`.`+id+`'`)
		}
	})
	s := audit.Source{Chapter: 9, DB: pool, DeadLetters: true, InDoubtAfter: time.Nanosecond}
	for _, c := range []struct {
		id   string
		want audit.Verdict
		why  string
	}{
		{handled, audit.Verdict{Phantom: 1}, "until a person commits it"},
		{not, audit.Verdict{Stuck: 1}, "was not handled"},
	} {
		trail, err := audit.Event(t.Context(), s, neverAsked(t), c.id)
		if err != nil {
			t.Fatal(err)
		}
		if trail.Verdict != c.want || trail.Valid != audit.False || !strings.Contains(trail.Why, c.why) ||
			trail.InDoubt == nil || trail.InDoubt.GID != schema+"."+c.id {
			t.Errorf("%+v in doubt %+v: %s, want %+v", trail.Verdict, trail.InDoubt, trail.Why, c.want)
		}
	}
	agree(t, s, audit.Verdict{Phantom: 1, Stuck: 1})

	young := s
	young.InDoubtAfter = time.Hour
	trail, err := audit.Event(t.Context(), young, neverAsked(t), handled)
	if err != nil || trail.Verdict != (audit.Verdict{Pending: 1}) || trail.Valid != audit.Unknown {
		t.Errorf("%+v, %v: its coordinator may still end it", trail.Verdict, err)
	}
	blind := audit.Source{Chapter: 9, DB: pool}
	if _, err := audit.Event(t.Context(), blind, holds(0), not); err == nil {
		t.Error("a chapter that prepares nothing looks for prepared transactions")
	}

	mustExec(t, pool, `COMMIT PREPARED '`+schema+`.`+handled+`'`)
	mustExec(t, pool, `ROLLBACK PREPARED '`+schema+`.`+not+`'`)
	agree(t, s, audit.Verdict{Orders: 1, Delivered: 1})
}

// agree compares both ways of counting, when nothing more can come.
func agree(t *testing.T, s audit.Source, want audit.Verdict) {
	t.Helper()
	v, err := audit.Tally(t.Context(), s, true)
	if err != nil || v != want {
		t.Errorf("counted together %+v, %v, want %+v", v, err, want)
	}
	trails, err := audit.Trails(t.Context(), s, true)
	if err != nil {
		t.Fatal(err)
	}
	var sum audit.Verdict
	for _, e := range trails {
		sum.Orders, sum.Delivered = sum.Orders+e.Verdict.Orders, sum.Delivered+e.Verdict.Delivered
		sum.Phantom, sum.Stuck = sum.Phantom+e.Verdict.Phantom, sum.Stuck+e.Verdict.Stuck
		sum.Lost, sum.Pending = sum.Lost+e.Verdict.Lost, sum.Pending+e.Verdict.Pending
	}
	if sum != want {
		t.Errorf("one by one %+v, want %+v", sum, want)
	}
}
