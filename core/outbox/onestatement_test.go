package outbox_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
)

const orderReturning = `INSERT INTO orders (event_id, user_id, items, bus) VALUES ($1, $2, $3, $4) RETURNING id`

// Both rows or neither, in each of the ways in which pgx sends parameters.
func TestOneStatementWritesBothOrNeither(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
		m := bus.Message{ID: uuid.NewString(), Topic: "other", Key: "雨", Payload: []byte(`{"n": 1}`), Headers: map[string]string{"a": `b"`}}
		sql, args, err := outbox.OneStatement(orderReturning, []any{m.ID, "u1", `["A"]`, "nats"}, "nats", m)
		if err != nil {
			t.Fatal(err)
		}
		// The second time its event id is taken: no second order either.
		for try, want := range []int{1, 1} {
			tag, err := pool.Exec(t.Context(), sql, append([]any{mode}, args...)...)
			if (err == nil) != (try == 0) || (err == nil && tag.RowsAffected() != 1) {
				t.Errorf("%v, try %d: %v, %v", mode, try, tag, err)
			}
			for _, table := range []string{"orders", "outbox"} {
				if n := pgtest.Count(t, pool, `SELECT count(*) FROM `+table+` WHERE event_id = $1`, m.ID); n != want {
					t.Errorf("%v, try %d: %d rows in %s, want %d", mode, try, n, table, want)
				}
			}
		}
		var same bool
		const row = `SELECT bus = 'nats' AND topic = 'other' AND key = '雨' AND headers->>'a' = 'b"' AND payload->>'n' = '1' FROM outbox WHERE event_id = $1`
		if err := pool.QueryRow(t.Context(), row, m.ID).Scan(&same); err != nil || !same {
			t.Errorf("%v: the row is not the message: %v", mode, err)
		}
	}
}

// A broken event takes the change with it, and the change its event.
func TestOneStatementFailsAsAWhole(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	for name, m := range map[string]bus.Message{
		"a payload that is no object": {ID: uuid.NewString(), Topic: "safe", Payload: []byte(`[]`)},
		"an id that is no UUID":       {ID: "x", Topic: "safe", Payload: []byte(`{}`)},
	} {
		sql, args, err := outbox.OneStatement(orderReturning, []any{uuid.NewString(), "u1", `["A"]`, "nats"}, "nats", m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), sql, args...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	m := bus.Message{ID: uuid.NewString(), Topic: "safe", Payload: []byte(`{}`)}
	sql, args, err := outbox.OneStatement(`UPDATE orders SET user_id = $1 WHERE user_id = $2 RETURNING 1`, []any{"a", "nobody"}, "nats", m)
	if err != nil {
		t.Fatal(err)
	}
	if tag, err := pool.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() != 0 {
		t.Errorf("a change of no row: %v, %v", tag, err)
	}
	if n := pgtest.Count(t, pool, `SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox)`); n != 0 {
		t.Errorf("%d rows are there, want none", n)
	}
}
