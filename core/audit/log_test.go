package audit_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/audit"
	"outboxplayground/core/cdc"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/infra/servers/servertest"
)

// logged is a schema of chapter 8 with the slot of one bus, which nobody reads.
type logged struct {
	pool         *pgxpool.Pool
	schema, slot string
}

func newLogged(t *testing.T) *logged {
	t.Helper()
	l := &logged{}
	l.pool, l.schema = pgtest.Schema(t, 8)
	t.Cleanup(func() {
		_, _ = l.pool.Exec(context.Background(), dropSlot, l.slot)
		if _, err := l.pool.Exec(context.Background(), `DROP PUBLICATION `+l.schema+`_rabbitmq`); err != nil {
			t.Error(err)
		}
	})
	l.prepare(t)
	const name = `SELECT slot_name FROM pg_replication_slots WHERE starts_with(slot_name, $1)`
	if err := l.pool.QueryRow(t.Context(), name, l.schema).Scan(&l.slot); err != nil {
		t.Fatal(err)
	}
	return l
}

const (
	dropSlot = `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1`
	anyOrder = `INSERT INTO orders (event_id, user_id, items, bus) VALUES ($1, 'u1', '["A"]', 'rabbitmq')`
	anyRow   = `INSERT INTO outbox (event_id, bus, payload) VALUES ($1, 'rabbitmq', '{}')`
	anyEmail = `INSERT INTO emails (event_id, recipient, bus) VALUES ($1, 'u1', 'rabbitmq')`
	pass     = `SELECT pg_replication_slot_advance($1, pg_current_wal_flush_lsn())`
)

func (l *logged) prepare(t *testing.T) {
	t.Helper()
	cfg, err := pg.ConnConfig(servertest.URL(t, "postgres"), l.schema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := cdc.Prepare(ctx, cfg, cdc.Lane{Schema: l.schema, Bus: "rabbitmq"}); err != nil {
		t.Fatal(err)
	}
}

func (l *logged) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	mustExec(t, l.pool, sql, args...)
}

// read stands for a relay with nothing to do: the slot follows the end of the log.
func (l *logged) read(t *testing.T) {
	t.Helper()
	l.exec(t, pass, l.slot)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = l.pool.Exec(ctx, pass, l.slot) // fails when the test is over
			time.Sleep(20 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// order commits an order, with its row or, for table-less, without.
func (l *logged) order(t *testing.T, withRow bool) string {
	t.Helper()
	id := uuid.NewString()
	l.exec(t, anyOrder, id)
	if withRow {
		l.exec(t, anyRow, id)
	}
	return id
}

func (l *logged) source() audit.Source {
	return audit.Source{Chapter: 8, DB: l.pool, Outbox: true, DeadLetters: true, Log: true}
}

func (l *logged) event(t *testing.T, id string, b audit.Backlog) audit.Trail {
	t.Helper()
	trail, err := audit.Event(t.Context(), l.source(), b, id)
	if err != nil {
		t.Fatal(err)
	}
	return trail
}

// No row says what was sent. The slot does, and where it is gone, or was made anew, the
// audit says that too.
func TestWhatTheSlotSaysOfAnEvent(t *testing.T) {
	for name, c := range map[string]struct {
		withRow bool
		then    func(*testing.T, *logged, string)
		backlog func(*testing.T) audit.Backlog
		want    audit.Verdict
		status  string
		why     string
	}{
		"not passed": {withRow: true, backlog: neverAsked, status: "pending",
			want: audit.Verdict{Orders: 1, Pending: 1}, why: "has not confirmed"},
		"not passed, no row": {backlog: neverAsked,
			want: audit.Verdict{Orders: 1, Pending: 1}, why: "has not confirmed"},
		"passed, with the bus": {withRow: true, backlog: one, status: "sent",
			then: func(t *testing.T, l *logged, _ string) { l.read(t) },
			want: audit.Verdict{Orders: 1, Pending: 1}, why: "still holds 1"},
		"passed, and nowhere": {withRow: true, backlog: none, status: "sent",
			then: func(t *testing.T, l *logged, _ string) { l.read(t) },
			want: audit.Verdict{Orders: 1, Lost: 1}, why: "the slot of rabbitmq has passed the event"},
		"passed, and nowhere, no row": {backlog: none,
			then: func(t *testing.T, l *logged, _ string) { l.read(t) },
			want: audit.Verdict{Orders: 1, Lost: 1}, why: "the slot of rabbitmq has passed the event"},
		"slot dropped": {withRow: true, backlog: none, status: "pending",
			then: func(t *testing.T, l *logged, _ string) { l.exec(t, dropSlot, l.slot) },
			want: audit.Verdict{Orders: 1, Lost: 1}, why: "there is no slot for rabbitmq any more"},
		"slot dropped and made anew": {withRow: true, backlog: none, status: "pending",
			then: func(t *testing.T, l *logged, _ string) { l.exec(t, dropSlot, l.slot); l.prepare(t); l.read(t) },
			want: audit.Verdict{Orders: 1, Lost: 1}, why: "written before the slot of rabbitmq was made"},
		"slot made anew, not passed": {withRow: true, backlog: neverAsked, status: "pending",
			then: func(t *testing.T, l *logged, _ string) { l.exec(t, dropSlot, l.slot); l.prepare(t) },
			want: audit.Verdict{Orders: 1, Pending: 1}, why: "has not confirmed"},
		"slot made anew, its maker died": {withRow: true, backlog: none, status: "pending",
			then: func(t *testing.T, l *logged, _ string) {
				l.exec(t, dropSlot, l.slot)
				l.prepare(t)
				l.exec(t, `UPDATE slots SET since = NULL WHERE id = (SELECT max(id) FROM slots)`)
				l.read(t)
			},
			want: audit.Verdict{Orders: 1, Lost: 1}, why: "written before the slot of rabbitmq was made"},
		"slot dropped, after it was sent": {withRow: true, backlog: neverAsked, status: "sent",
			then: func(t *testing.T, l *logged, id string) { l.exec(t, anyEmail, id); l.exec(t, dropSlot, l.slot) },
			want: audit.Verdict{Orders: 1, Delivered: 1}, why: "the order and its email are there"},
		"refused": {withRow: true, backlog: neverAsked, status: "failed",
			then: func(t *testing.T, l *logged, id string) {
				l.exec(t, `UPDATE outbox SET status = 'failed' WHERE event_id = $1`, id)
			},
			want: audit.Verdict{Orders: 1, Stuck: 1}, why: "until a person retries it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is the silence before a loss
			l := newLogged(t)
			id := l.order(t, c.withRow)
			if c.then != nil {
				c.then(t, l, id)
			}
			trail := l.event(t, id, c.backlog(t))
			if trail.Verdict != c.want || !strings.Contains(trail.Why, c.why) {
				t.Errorf("%+v, because %q; want %+v, because %q", trail.Verdict, trail.Why, c.want, c.why)
			}
			if c.withRow && trail.Outbox.Status != c.status {
				t.Errorf("its row is shown as %s, want %s", trail.Outbox.Status, c.status)
			}
		})
	}
}

// An event that is written while its slot is being made, and committed afterwards, has its
// place before the slot begins, and is delivered. It is not lost.
func TestAnEventWrittenWhileItsSlotIsMade(t *testing.T) {
	l := newLogged(t)
	l.exec(t, dropSlot, l.slot)
	var making sync.WaitGroup
	defer making.Wait()
	first, firstID := l.begin(t)
	defer first.Rollback(context.Background())
	making.Go(func() { l.prepare(t) })
	l.waitedFor(t, firstID)
	second, secondID := l.begin(t)
	defer second.Rollback(context.Background())
	must(t, first.Rollback(t.Context()))
	l.waitedFor(t, secondID) // from now on the changes of new transactions are collected
	tx, _ := l.begin(t)
	defer tx.Rollback(context.Background())
	id := uuid.NewString()
	mustExec(t, tx, anyOrder, id)
	mustExec(t, tx, anyRow, id)
	must(t, second.Rollback(t.Context()))
	making.Wait()
	must(t, tx.Commit(t.Context()))
	const inserts = `
SELECT count(*) FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', $2)
WHERE get_byte(data, 0) = ascii('I')`
	if n := pgtest.Count(t, l.pool, inserts, l.slot, l.schema+"_rabbitmq"); n != 1 {
		t.Errorf("the slot holds %d events, want 1: this test does not show what it should", n)
	}
	const before = `SELECT count(*) FROM outbox WHERE lsn < (SELECT max(since) FROM slots)`
	if n := pgtest.Count(t, l.pool, before); n != 1 {
		t.Errorf("%d rows are before the slot, want 1: this test does not show what it should", n)
	}
	if trail := l.event(t, id, holds(0)); trail.Verdict.Pending != 1 || trail.Verdict.Lost != 0 {
		t.Errorf("%+v, because %q, want it to be pending", trail.Verdict, trail.Why)
	}
}

// begin opens a transaction that has written, and tells its number.
func (l *logged) begin(t *testing.T) (tx pgx.Tx, xid string) {
	t.Helper()
	tx, err := l.pool.Begin(t.Context())
	must(t, err)
	must(t, tx.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text`).Scan(&xid))
	return tx, xid
}

// waitedFor waits until the maker of the slot waits for the end of a transaction.
func (l *logged) waitedFor(t *testing.T, xid string) {
	t.Helper()
	const waits = `
SELECT count(*) FROM pg_locks l JOIN pg_replication_slots s ON s.active_pid = l.pid
WHERE l.locktype = 'transactionid' AND NOT l.granted AND l.transactionid::text = $1 AND s.slot_name = $2`
	for until := time.Now().Add(20 * time.Second); pgtest.Count(t, l.pool, waits, xid, l.slot) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("nobody waits for transaction %s", xid)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func one(*testing.T) audit.Backlog  { return holds(1) }
func none(*testing.T) audit.Backlog { return holds(0) }

// A slot that passes while the audit looks is waited for: under traffic it is always a
// little behind.
func TestASlotOnItsWayIsWaitedFor(t *testing.T) {
	l := newLogged(t)
	id := l.order(t, true)
	l.exec(t, `UPDATE outbox SET lsn = '0/1'`) // as if the slot were past its INSERT
	late := time.AfterFunc(200*time.Millisecond, func() { l.read(t) })
	defer late.Stop()
	if trail := l.event(t, id, holds(1)); !strings.Contains(trail.Why, "still holds 1") {
		t.Errorf("because %q: the bus was not asked", trail.Why)
	}
}

// Both ways of counting agree, while things move and when they are over.
func TestCountingWhereNobodyMarks(t *testing.T) {
	l := newLogged(t)
	delivered, failed := l.order(t, true), l.order(t, true)
	l.exec(t, anyEmail, delivered)
	l.exec(t, `UPDATE outbox SET status = 'failed' WHERE event_id = $1`, failed)
	l.order(t, true)
	l.order(t, false)
	for over, want := range map[bool]audit.Verdict{
		false: {Orders: 4, Delivered: 1, Stuck: 1, Pending: 2},
		true:  {Orders: 4, Delivered: 1, Stuck: 1, Lost: 2},
	} {
		v, err := audit.Tally(t.Context(), l.source(), over)
		if err != nil || v != want {
			t.Errorf("over %v: together %+v, %v, want %+v", over, v, err, want)
		}
		trails, err := audit.Trails(t.Context(), l.source(), over)
		if err != nil {
			t.Fatal(err)
		}
		var sum audit.Verdict
		for _, trail := range trails {
			sum.Orders += trail.Verdict.Orders
			sum.Delivered += trail.Verdict.Delivered
			sum.Stuck += trail.Verdict.Stuck
			sum.Pending += trail.Verdict.Pending
			sum.Lost += trail.Verdict.Lost
		}
		if sum != want {
			t.Errorf("over %v: one by one %+v, want %+v", over, sum, want)
		}
	}
}
