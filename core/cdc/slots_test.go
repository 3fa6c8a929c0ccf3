package cdc_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"outboxplayground/core/cdc"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
	"outboxplayground/infra/servers/servertest"
)

// Nobody reads, somebody writes: the server keeps its log, and says so. A reader with
// nothing to send clears it.
func TestAStoppedReaderKeepsTheLog(t *testing.T) {
	r := newRig(t, "nats")
	if s := r.slot(t, "nats"); !s.Exists || s.Active || s.Alarm != "" {
		t.Errorf("a new slot: %+v", s)
	}
	r.exec(t, `SELECT count(pg_logical_emit_message(false, 'elsewhere', repeat('x', 1 << 20))) FROM generate_series(1, 70)`)
	s := r.slot(t, "nats")
	if s.RetainedBytes < cdc.AlarmBytes || s.BehindBytes < cdc.AlarmBytes || !strings.Contains(s.Alarm, "nobody reads") {
		t.Errorf("after 70 MB without a reader: %+v", s)
	}
	start(t, r.relay(t, &shoptest.Bus{}, "nats", cdc.Config{}))
	r.confirmed(t, "nats")
	r.exec(t, `CHECKPOINT`) // a slot lets go of the log at a record that a checkpoint writes
	await(t, func() bool { s := r.slot(t, "nats"); return s.Alarm == "" && s.Active })
}

// A bus that takes no events has no reader. Its slot moves on without one, but never past
// something that waits in it.
func TestTend(t *testing.T) {
	r := newRig(t, "nats")
	tend := func() {
		t.Helper()
		if err := cdc.Tend(t.Context(), r.pool, r.lane("nats")); err != nil {
			t.Fatal(err)
		}
	}
	before := r.slot(t, "nats").Confirmed
	r.write(t, "redis", 1)
	tend()
	moved := r.slot(t, "nats").Confirmed
	if moved == before {
		t.Error("the slot has not moved past what is not its own")
	}
	id := r.write(t, "nats", 1)[0]
	tend()
	if at := r.slot(t, "nats").Confirmed; at != moved {
		t.Errorf("moved from %s to %s past an event", moved, at)
	}
	b := &shoptest.Bus{}
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	arrives(t, b, []string{id})
	tend() // has a reader: no error
}

// Two kinds of event that no look at the table finds: a message, and a row that was written
// before the slot's position and committed behind it.
func TestTendAsksTheLog(t *testing.T) {
	r := newRig(t, "nats")
	tend := func() string {
		t.Helper()
		if err := cdc.Tend(t.Context(), r.pool, r.lane("nats")); err != nil {
			t.Fatal(err)
		}
		return r.slot(t, "nats").Confirmed
	}
	slow, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(context.Background())
	id, err := writeIn(t.Context(), slow, "nats")
	if err != nil {
		t.Fatal(err)
	}
	r.exec(t, `SELECT pg_logical_emit_message(true, $1, 'x')`, r.lane("redis").Prefix()) // moves the end of the log
	tend()
	before := r.slot(t, "nats").Confirmed
	if n := pgtest.Count(t, r.pool, `SELECT count(*) FROM outbox`); n != 0 {
		t.Fatal("the transaction is not open")
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Count(t, r.pool, `SELECT count(*) FROM outbox WHERE lsn < $1::pg_lsn`, before); n != 1 {
		t.Error("the row was not written before the slot's position: this test does not show what it should")
	}
	if at := tend(); at != before {
		t.Errorf("moved from %s to %s past a row that was committed late", before, at)
	}
	b := &shoptest.Bus{}
	stop := start(t, r.relay(t, b, "nats", cdc.Config{}))
	arrives(t, b, []string{id})
	r.confirmed(t, "nats")
	stop()
	await(t, func() bool { return !r.slot(t, "nats").Active })
	r.exec(t, `SELECT pg_logical_emit_message(true, $1, '{}')`, r.lane("nats").Prefix())
	before = r.slot(t, "nats").Confirmed
	if at := tend(); at != before {
		t.Errorf("moved from %s to %s past a message", before, at)
	}
}

// A person's retry is in the log of every lane. Only the lane of its row waits for it.
func TestTendAndTheRetryOfAnotherBus(t *testing.T) {
	r := newRig(t, "nats", "redis")
	r.exec(t, `INSERT INTO outbox (event_id, bus, payload, status) VALUES (gen_random_uuid(), 'nats', '{}', 'failed')`)
	if n, err := outbox.RetryAll(t.Context(), r.pool, outbox.Filter{}, "anna"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	for busName, moves := range map[string]bool{"nats": false, "redis": true} {
		before := r.slot(t, busName).Confirmed
		if err := cdc.Tend(t.Context(), r.pool, r.lane(busName)); err != nil {
			t.Fatal(err)
		}
		if after := r.slot(t, busName).Confirmed; (after != before) != moves {
			t.Errorf("%s: from %s to %s; moves: want %v", busName, before, after, moves)
		}
	}
}

// However much there is, a call has to do with a part of it, and passes no event.
func TestTendGoesInSteps(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	const others = `SELECT count(pg_logical_emit_message(false, 'elsewhere', repeat('x', 1 << 20))) FROM generate_series(1, $1)`
	r.exec(t, others, 40)
	id := r.write(t, "nats", 1)[0]
	r.exec(t, others, 10)
	var steps []int
	for before := r.slot(t, "nats").Confirmed; len(steps) < 10; { // others write here, too
		if err := cdc.Tend(t.Context(), r.pool, r.lane("nats")); err != nil {
			t.Fatal(err)
		}
		after := r.slot(t, "nats").Confirmed
		if after == before {
			break
		}
		steps = append(steps, pgtest.Count(t, r.pool, `SELECT ($1::pg_lsn - $2::pg_lsn)::bigint`, after, before))
		before = after
	}
	if len(steps) == 0 || len(steps) == 10 || slices.Max(steps) > 32<<20 {
		t.Errorf("steps of %v bytes, want some of 32 MB at most, and an end before the event", steps)
	}
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	arrives(t, b, []string{id})
}

// A slot that is gone is not made again by a relay; Prepare does so, and the gap is noted.
func TestADroppedSlot(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	r.prepare(t, "nats") // again: changes nothing
	if n := pgtest.Count(t, r.pool, `SELECT count(*) FROM slots`); n != 1 {
		t.Errorf("%d slots are noted, want 1", n)
	}
	r.dropSlot(t, "nats")
	r.write(t, "nats", 1)
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	if s := r.slot(t, "nats"); s.Exists || !strings.Contains(s.Alarm, "gone") {
		t.Errorf("a dropped slot: %+v", s)
	}
	if s, err := cdc.ReadStats(t.Context(), r.pool); err != nil || s.Pending != 1 {
		t.Errorf("%+v, %v, want the row to be pending: nobody knows", s, err)
	}
	r.prepare(t, "nats")
	after := r.write(t, "nats", 1)
	arrives(t, b, after)
	if n := r.inGap(t); n != 1 {
		t.Errorf("%d rows are in the gap, want 1", n)
	}
}

func (r *rig) inGap(t *testing.T) int {
	t.Helper()
	return pgtest.Count(t, r.pool, `SELECT count(*) FROM outbox o WHERE o.lsn < (SELECT max(since) FROM slots WHERE slots.bus = o.bus)`)
}

// Between the making of a slot and its note somebody may die, of the first slot as of one
// that is made again. It alarms, and the next Prepare notes it; the gap is not hidden.
func TestASlotThatNobodyNoted(t *testing.T) {
	r := newRig(t, "nats")
	for _, gap := range []int{1, 2} {
		r.dropSlot(t, "nats")
		if gap == 1 {
			r.exec(t, `DELETE FROM slots`) // as if it were the first one
		}
		r.write(t, "nats", 1)
		r.exec(t, `ALTER TABLE slots ADD CONSTRAINT dies CHECK (since IS NULL) NOT VALID`)
		if err := cdc.Prepare(t.Context(), r.connect(t)(), r.lane("nats")); err == nil || !strings.Contains(err.Error(), "dies") {
			t.Fatalf("Prepare: %v, want it to end before the note", err)
		}
		if s := r.slot(t, "nats"); !s.Exists || s.Since != "" || !strings.Contains(s.Alarm, "died") {
			t.Errorf("%+v, want a slot whose maker died", s)
		}
		r.exec(t, `ALTER TABLE slots DROP CONSTRAINT dies`)
		r.prepare(t, "nats")
		r.prepare(t, "nats") // again: changes nothing
		if s := r.slot(t, "nats"); !s.Exists || s.Since != s.Confirmed || s.Alarm != "" {
			t.Errorf("%+v, want it to be noted where it stands", s)
		}
		if n := r.inGap(t); n != gap {
			t.Errorf("%d rows are in the gap, want %d", n, gap)
		}
		if n := pgtest.Count(t, r.pool, `SELECT count(*) FROM slots`); n != gap {
			t.Errorf("%d slots are noted, want %d", n, gap)
		}
	}
	r.write(t, "nats", 1)
	if s, err := cdc.ReadStats(t.Context(), r.pool); err != nil || s.Pending != 1 {
		t.Errorf("%+v, %v, want the row to be counted", s, err)
	}
}

// While the slot is gone and a new one cannot be made yet, nothing counts as sent.
func TestStatsWhileASlotIsBeingMade(t *testing.T) {
	r := newRig(t, "nats")
	r.dropSlot(t, "nats")
	r.exec(t, `UPDATE slots SET since = NULL`)
	r.write(t, "nats", 1)
	if s, err := cdc.ReadStats(t.Context(), r.pool); err != nil || s.Pending != 1 {
		t.Errorf("%+v, %v, want the row to be pending", s, err)
	}
	if s := r.slot(t, "nats"); s.Exists || s.Alarm == "" {
		t.Errorf("%+v, want an alarm", s)
	}
}

// DROP SCHEMA leaves a publication without tables, which publishes nothing and says so
// to nobody.
func TestAPublicationWithoutTablesIsMadeAnew(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	r.exec(t, `ALTER PUBLICATION `+r.lane("nats").Name()+` DROP TABLE outbox`)
	r.prepare(t, "nats")
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	arrives(t, b, r.write(t, "nats", 1))
}

// A role that may not replicate is told how it may. (So is a server without
// wal_level=logical, which takes a restart to show.)
func TestUnsupported(t *testing.T) {
	r := newRig(t)
	role := r.schema + "_reader"
	r.exec(t, `CREATE ROLE `+role+` LOGIN PASSWORD 'x' NOREPLICATION`)
	t.Cleanup(func() { r.exec(t, `DROP ROLE `+role) })
	u, err := url.Parse(servertest.URL(t, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "x")
	cfg, err := pg.ConnConfig(u.String(), r.schema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = cdc.Prepare(t.Context(), cfg, r.lane("nats"))
	if !errors.Is(err, cdc.ErrUnsupported) || !strings.Contains(err.Error(), `ALTER ROLE "`+role+`" REPLICATION`) {
		t.Errorf("Prepare: %v", err)
	}
}

// A new slot waits for every transaction that is open. It does not wait for ever, and
// says what it waits for.
func TestAnOpenTransactionKeepsASlotFromBeingMade(t *testing.T) {
	r := newRig(t)
	open, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Rollback(context.Background())
	if _, err := writeIn(t.Context(), open, "nats"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.exec(t, "DROP PUBLICATION IF EXISTS "+r.lane("nats").Name()) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = cdc.Prepare(ctx, r.connect(t)(), r.lane("nats"))
	if !errors.Is(err, cdc.ErrNotYet) || !strings.Contains(err.Error(), "pg_stat_activity") {
		t.Errorf("Prepare: %v", err)
	}
	if n := pgtest.Count(t, r.pool, slotOf, r.lane("nats").Name()); n != 0 {
		t.Error("half a slot stays behind")
	}
}
