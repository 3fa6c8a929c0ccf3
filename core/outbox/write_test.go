package outbox_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// What is written is what is sent: payload with its digits, key, headers, topic.
// Case 8: by the simple protocol as by the extended one.
func TestWriteKeepsTheMessage(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
		conn, err := pgx.ConnectConfig(t.Context(), func() *pgx.ConnConfig {
			c := pool.Config().ConnConfig.Copy()
			c.DefaultQueryExecMode = mode
			return c
		}())
		if err != nil {
			t.Fatal(err)
		}
		m := bus.Message{ID: uuid.NewString(), Topic: "other", Key: "雨", Payload: []byte(`{"n": 12345678901234567890.10, "s": "a\"b\\c<&>雨"}`),
			Headers: map[string]string{"trace": `a"b`, "雨": "傘"}}
		err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return outbox.Write(t.Context(), tx, "nats", m) })
		conn.Close(t.Context())
		if err != nil {
			t.Fatalf("%v: %v", mode, err)
		}
		b := &shoptest.Bus{}
		if res := step(t, relay(t, pool, b, outbox.Config{})); res.Sent != 1 {
			t.Fatalf("%v: %+v", mode, res)
		}
		got := b.Accepted()[0]
		if got.ID != m.ID || got.Topic != m.Topic || got.Key != m.Key || string(got.Payload) != string(m.Payload) ||
			len(got.Headers) != 2 || got.Headers["trace"] != `a"b` || got.Headers["雨"] != "傘" {
			t.Errorf("%v: sent %+v, want %+v", mode, got, m)
		}
	}
}

func TestWriteIsPartOfTheTransaction(t *testing.T) {
	pool, _ := pgtest.Schema(t, 4)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := bus.Message{ID: uuid.NewString(), Topic: "safe", Payload: []byte(`{}`)}
	if err := outbox.Write(t.Context(), tx, "nats", m); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox`); n != 0 {
		t.Errorf("%d rows of a transaction that was rolled back", n)
	}
}

func TestWriteRefusesWhatIsNoEvent(t *testing.T) {
	pool, _ := pgtest.Schema(t, 4)
	id := write(t, pool, "nats", 1)[0]
	for name, m := range map[string]bus.Message{
		"a payload that is no object": {ID: uuid.NewString(), Topic: "safe", Payload: []byte(`"text"`)},
		"no JSON":                     {ID: uuid.NewString(), Topic: "safe", Payload: []byte(`{`)},
		"an id that is no UUID":       {ID: "13", Topic: "safe", Payload: []byte(`{}`)},
		"an event that is there":      {ID: id, Topic: "safe", Payload: []byte(`{}`)},
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return outbox.Write(t.Context(), tx, "nats", m) })
		if err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox`); n != 1 {
		t.Errorf("%d rows, want the one that was there", n)
	}
}
