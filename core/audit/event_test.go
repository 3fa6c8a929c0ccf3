package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/audit"
	"outboxplayground/core/pg/pgtest"
)

// holds is a backlog that answers n.
func holds(n int64) audit.Backlog {
	return func(context.Context, int, string) (int64, error) { return n, nil }
}

// silent is a backlog that cannot be told.
func silent(context.Context, int, string) (int64, error) {
	return 0, errors.New("broker is down")
}

// neverAsked fails the test: these rows decide alone.
func neverAsked(t *testing.T) audit.Backlog {
	return func(context.Context, int, string) (int64, error) {
		t.Error("the backlog was asked without need")
		return 0, nil
	}
}

const (
	anOrder  = `INSERT INTO orders (event_id, user_id, items, bus, created_at) VALUES ($1, 'u1', '["A","B"]', 'nats', now() - $2::interval)`
	anEffect = `WITH p AS (INSERT INTO processed (event_id, consumer, bus) VALUES ($1, 'mailer', 'nats') ON CONFLICT DO NOTHING)
		INSERT INTO emails (event_id, recipient, bus) VALUES ($1, 'u1', 'nats')`
	aRow = `INSERT INTO outbox (event_id, bus, payload, status, sent_at)
		VALUES ($1, 'nats', '{}', $2, CASE WHEN $2 = 'sent' THEN now() - $3::interval END)`
)

// story writes the rows of one event.
type story struct {
	order   string // its age, "" for none
	outbox  string // its status, "" for none
	sent    string // age of sent_at
	effects int
}

func (s story) write(t *testing.T, db execer) string {
	t.Helper()
	id := uuid.NewString()
	if s.order != "" {
		mustExec(t, db, anOrder, id, s.order)
	}
	if s.outbox != "" {
		if s.sent == "" {
			s.sent = "0s"
		}
		mustExec(t, db, aRow, id, s.outbox, s.sent)
	}
	for range s.effects {
		mustExec(t, db, anEffect, id)
	}
	return id
}

func mustExec(t *testing.T, db execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func source(pool *pgxpool.Pool) audit.Source {
	return audit.Source{Chapter: 3, DB: pool, Outbox: true}
}

func TestEveryVerdict(t *testing.T) {
	pool, _ := pgtest.Alone(t, 3)
	tests := []struct {
		name    string
		story   story
		backlog audit.Backlog
		valid   audit.Validity
		want    audit.Verdict
		words   string
		why     string
	}{
		{"delivered, with an outbox", story{order: "1 min", outbox: "sent", effects: 1}, nil,
			audit.True, audit.Verdict{Orders: 1, Delivered: 1}, "✓ delivered", "its email"},
		{"delivered, without one", story{order: "1 min", effects: 1}, nil,
			audit.True, audit.Verdict{Orders: 1, Delivered: 1}, "✓ delivered", "its email"},
		{"duplicated", story{order: "1 min", outbox: "sent", effects: 3}, nil,
			audit.False, audit.Verdict{Orders: 1, Delivered: 1, Duplicated: 1}, "✓ delivered, ⧉ duplicated", "3 emails"},
		{"stuck", story{order: "1 min", outbox: "failed"}, nil,
			audit.False, audit.Verdict{Orders: 1, Stuck: 1}, "■ stuck", "a person"},
		{"stuck, although it arrived", story{order: "1 min", outbox: "failed", effects: 1}, nil,
			audit.False, audit.Verdict{Orders: 1, Delivered: 1, Stuck: 1}, "✓ delivered, ■ stuck", "a person"},
		{"pending", story{order: "1 min", outbox: "pending"}, nil,
			audit.Unknown, audit.Verdict{Orders: 1, Pending: 1}, "… pending", "pending"},
		{"published and not yet marked: it may come again", story{order: "1 min", outbox: "pending", effects: 1}, nil,
			audit.Unknown, audit.Verdict{Orders: 1, Delivered: 1, Pending: 1}, "✓ delivered, … pending", "pending"},
		{"sent a moment ago", story{order: "1 min", outbox: "sent", sent: "4 s"}, nil,
			audit.Unknown, audit.Verdict{Orders: 1, Pending: 1}, "… pending", "may still deliver"},
		{"sent and still on the bus", story{order: "1 min", outbox: "sent", sent: "6 s"}, holds(2),
			audit.Unknown, audit.Verdict{Orders: 1, Pending: 1}, "… pending", "still holds 2"},
		{"sent and the bus cannot be asked", story{order: "1 min", outbox: "sent", sent: "6 s"}, silent,
			audit.Unknown, audit.Verdict{Orders: 1, Pending: 1}, "… pending", "cannot be asked"},
		{"sent and gone", story{order: "1 min", outbox: "sent", sent: "6 s"}, holds(0),
			audit.False, audit.Verdict{Orders: 1, Lost: 1}, "✗ lost", "holds nothing"},
		{"an order without an outbox, fresh", story{order: "1 s"}, nil,
			audit.Unknown, audit.Verdict{Orders: 1, Pending: 1}, "… pending", "may still deliver"},
		{"an order without an outbox, old", story{order: "1 min"}, holds(0),
			audit.False, audit.Verdict{Orders: 1, Lost: 1}, "✗ lost", "holds nothing"},
		{"a phantom", story{effects: 1}, nil,
			audit.False, audit.Verdict{Phantom: 1}, "⚠ phantom", "no order"},
		{"a phantom that came twice", story{effects: 2}, nil,
			audit.False, audit.Verdict{Phantom: 1, Duplicated: 1}, "⧉ duplicated, ⚠ phantom", "no order"},
		{"an outbox row alone", story{outbox: "sent"}, nil,
			audit.Unknown, audit.Verdict{Pending: 1}, "… pending", "no order"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.backlog == nil {
				tt.backlog = neverAsked(t)
			}
			id := tt.story.write(t, pool)
			trail := expect(t, pool, tt.backlog, id, tt.valid, tt.want)
			if trail.Words() != tt.words || !strings.Contains(trail.Why, tt.why) {
				t.Errorf("%q because %q, want %q because …%s…", trail.Words(), trail.Why, tt.words, tt.why)
			}
			if trail.Bus != "nats" {
				t.Errorf("bus %q", trail.Bus)
			}
		})
	}
}

// Silence proves nothing before the bus's time to deliver again is over, nor while
// an order without an outbox may still be on its way to the broker.
func TestSilenceProvesNothingTooEarly(t *testing.T) {
	pool, _ := pgtest.Alone(t, 3)
	for _, tt := range []struct {
		bus   string
		story story
		early bool
	}{
		{"kafka", story{order: "1 min", outbox: "sent", sent: "2 s"}, true},
		{"kafka", story{order: "1 min", outbox: "sent", sent: "7 s"}, false},
		{"redis", story{order: "1 min", outbox: "sent", sent: "2 s"}, true},
		{"redis", story{order: "1 min", outbox: "sent", sent: "6 s"}, false},
		{"rabbitmq", story{order: "1 min", outbox: "sent", sent: "2 s"}, false},
		{"rabbitmq", story{order: "2 s"}, true},
		{"rabbitmq", story{order: "6 s"}, false},
	} {
		id, backlog, want := tt.story.write(t, pool), holds(0), audit.Verdict{Orders: 1, Lost: 1}
		for _, table := range []string{"orders", "outbox"} {
			mustExec(t, pool, `UPDATE `+table+` SET bus = $2 WHERE event_id = $1`, id, tt.bus)
		}
		if tt.early {
			backlog, want = neverAsked(t), audit.Verdict{Orders: 1, Pending: 1}
		}
		if trail, err := audit.Event(t.Context(), source(pool), backlog, id); err != nil || trail.Verdict != want {
			t.Errorf("%s %+v: %+v because %s (%v), want %+v", tt.bus, tt.story, trail.Verdict, trail.Why, err, want)
		}
	}
}

func TestNoRowAtAllIsUnknown(t *testing.T) {
	pool, _ := pgtest.Alone(t, 3)
	_, err := audit.Event(t.Context(), source(pool), neverAsked(t), uuid.NewString())
	if !errors.Is(err, audit.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
}

// An event published inside a transaction can be handled before the order is
// committed: as long as that transaction lives, nobody may call it a phantom.
func TestAnOpenTransactionIsNoPhantomYet(t *testing.T) {
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(end, func(t *testing.T) {
			pool, _ := pgtest.Alone(t, 3)
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			id := story{order: "0 s"}.write(t, tx)
			mustExec(t, pool, anEffect, id)

			expect(t, pool, neverAsked(t), id, audit.Unknown, audit.Verdict{Pending: 1})
			if end == "COMMIT" {
				err = tx.Commit(t.Context())
			} else {
				err = tx.Rollback(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if end == "COMMIT" {
				expect(t, pool, neverAsked(t), id, audit.True, audit.Verdict{Orders: 1, Delivered: 1})
			} else {
				expect(t, pool, neverAsked(t), id, audit.False, audit.Verdict{Phantom: 1})
			}
		})
	}
}

// A prepared transaction has no session any more, and can be committed all the same.
func TestAPreparedTransactionIsNoPhantomYet(t *testing.T) {
	pool, schema := pgtest.Alone(t, 3)
	var allowed string
	if err := pool.QueryRow(t.Context(), `SHOW max_prepared_transactions`).Scan(&allowed); err != nil {
		t.Fatal(err)
	}
	if allowed == "0" {
		t.Skip("this server has max_prepared_transactions = 0")
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	mustExec(t, conn, "BEGIN")
	id := story{order: "0 s"}.write(t, conn)
	mustExec(t, conn, fmt.Sprintf("PREPARE TRANSACTION '%s'", schema))
	t.Cleanup(func() { // a test that fails half-way would block the end of its schema
		_, _ = pool.Exec(context.Background(), fmt.Sprintf("ROLLBACK PREPARED '%s'", schema))
	})
	mustExec(t, pool, anEffect, id)
	expect(t, pool, neverAsked(t), id, audit.Unknown, audit.Verdict{Pending: 1})
	mustExec(t, conn, fmt.Sprintf("COMMIT PREPARED '%s'", schema))
	expect(t, pool, neverAsked(t), id, audit.True, audit.Verdict{Orders: 1, Delivered: 1})
}

// The order that commits between the first look and the question about open
// transactions must be found by the second look.
func TestAnOrderCommittedMeanwhileIsFound(t *testing.T) {
	pool, _ := pgtest.Alone(t, 3)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := story{order: "0 s"}.write(t, tx)
	mustExec(t, pool, anEffect, id)
	s := source(pool)
	s.DB = &between{Pool: pool, before: func() {
		if err := tx.Commit(context.Background()); err != nil {
			t.Error(err)
		}
	}}
	trail, err := audit.Event(t.Context(), s, neverAsked(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if trail.Valid != audit.True {
		t.Errorf("valid %s because %s, want true", trail.Valid, trail.Why)
	}
}

// The same for an event that the listener handled while the bus was being asked.
func TestAnEventHandledMeanwhileIsNotLost(t *testing.T) {
	pool, _ := pgtest.Alone(t, 3)
	id := story{order: "1 min", outbox: "sent", sent: "1 min"}.write(t, pool)
	handledNow := func(ctx context.Context, _ int, _ string) (int64, error) {
		_, err := pool.Exec(ctx, anEffect, id)
		return 0, err
	}
	trail, err := audit.Event(t.Context(), source(pool), handledNow, id)
	if err != nil {
		t.Fatal(err)
	}
	if trail.Valid != audit.True || trail.Verdict.Lost != 0 {
		t.Errorf("valid %s because %s, want true", trail.Valid, trail.Why)
	}
}

func TestTheTrailAsJSONAndText(t *testing.T) {
	pool, _ := pgtest.Alone(t, 3)
	id := story{order: "1 min", outbox: "sent", effects: 2}.write(t, pool)
	mustExec(t, pool, `UPDATE orders SET user_id = E'u\x1b[31m' WHERE event_id = $1`, id)
	trail, err := audit.Event(t.Context(), source(pool), neverAsked(t), id)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(trail)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"valid":false`, `"dead_letters":[]`, `"items":["A","B"]`, `"last_error":null`, `"duplicated":1`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("%s is missing in %s", part, data)
		}
	}
	var text strings.Builder
	if err := trail.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{id, "⧉ duplicated", "valid: false", `user "u\x1b[31m"`, "⧉ sent"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%s is missing in\n%s", part, text.String())
		}
	}
	if strings.ContainsRune(text.String(), '\x1b') {
		t.Error("a customer's name can steer the terminal")
	}
}

func TestValidityInJSON(t *testing.T) {
	for v, want := range map[audit.Validity]string{audit.True: "true", audit.False: "false", audit.Unknown: `"unknown"`} {
		data, err := json.Marshal(v)
		if err != nil || string(data) != want {
			t.Errorf("%s becomes %s (%v), want %s", v, data, err, want)
		}
		var back audit.Validity
		if err := json.Unmarshal(data, &back); err != nil || back != v {
			t.Errorf("%s comes back as %s (%v)", data, back, err)
		}
	}
	var v audit.Validity
	if err := json.Unmarshal([]byte(`"true"`), &v); err == nil {
		t.Error(`the string "true" was taken for true`)
	}
}

// expect waits until the audit says what it should. Time enters only because the
// witness looks at the whole database, where another test's transaction may make a
// phantom unknown for a moment; every other wrong answer fails at once.
func expect(t *testing.T, pool *pgxpool.Pool, backlog audit.Backlog, id string,
	valid audit.Validity, want audit.Verdict) audit.Trail {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		trail, err := audit.Event(t.Context(), source(pool), backlog, id)
		if err != nil {
			t.Fatal(err)
		}
		if trail.Valid == valid && trail.Verdict == want {
			return trail
		}
		if want.Phantom == 0 || trail.Verdict.Pending == 0 || time.Now().After(deadline) {
			t.Fatalf("valid %s %+v because %s, want %s %+v", trail.Valid, trail.Verdict, trail.Why, valid, want)
		}
	}
}

// between runs a function before the question about open transactions.
type between struct {
	*pgxpool.Pool
	before func()
}

func (b *between) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	b.before()
	return b.Pool.QueryRow(ctx, sql, args...)
}
