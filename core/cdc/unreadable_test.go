package cdc_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/cdc"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

const emit = `SELECT pg_logical_emit_message(true, $1, $2::bytea)`

// parked is what the outbox says of an event that was given up.
type parked struct{ id, reason, payload string }

func (r *rig) parked(t *testing.T) (all []parked) {
	t.Helper()
	rows, err := r.pool.Query(t.Context(), `SELECT event_id::text, last_error, payload::text FROM outbox WHERE status = 'failed' ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	var p parked
	if _, err := pgx.ForEachRow(rows, []any{&p.id, &p.reason, &p.payload}, func() error { all = append(all, p); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// Nobody checks what pg_logical_emit_message writes. What cannot be read is written down,
// with what it was, and the events behind it arrive.
func TestAMessageThatNobodyCanReadStopsNoLane(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	id := uuid.NewString()
	var good []string
	cases := []struct{ content, reason, kept string }{
		{"garbage", "unreadable message", `garbage`},
		{"[]", "unreadable message", `[]`},
		{"\xff\x00", "unreadable message", `\xff\x00`},
		{`{"ID":"x","Topic":"safe"}`, "no UUID", `"ID":"x"`},
		{`{"ID":"` + id + `","Headers":{"a":1}}`, "unreadable message", `"a":1`},
	}
	for _, c := range cases {
		r.exec(t, emit, r.lane("nats").Prefix(), []byte(c.content))
		good = append(good, r.write(t, "nats", 1)...)
	}
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	arrives(t, b, good)
	r.confirmed(t, "nats")
	all := r.parked(t)
	if len(all) != len(cases) || all[4].id != id {
		t.Fatalf("%+v, want %d rows, the last one of event %s", all, len(cases), id)
	}
	for i, c := range cases {
		var p struct{ Unreadable string }
		if err := json.Unmarshal([]byte(all[i].payload), &p); err != nil ||
			!strings.Contains(p.Unreadable, c.kept) || !strings.Contains(all[i].reason, c.reason) {
			t.Errorf("%q is kept as %+v", c.content, all[i])
		}
	}
	if n := pgtest.Count(t, r.pool, `SELECT sum(attempts) FROM outbox`); n != 0 {
		t.Errorf("%d attempts to publish are counted, want none", n)
	}
}

// Read again, it is the same one.
func TestAnUnreadableMessageIsKeptOnce(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	var id string
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(t.Context(), emit, r.lane("nats").Prefix(), []byte("garbage")); err != nil {
			return err
		}
		id, err = writeIn(t.Context(), tx, "nats")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, r.relay(t, b, "nats", cdc.Config{Steps: checkpoint.Fail(checkpoint.BeforeMark, id, errNetwork)}))
	arrives(t, b, []string{id, id})
	r.confirmed(t, "nats")
	if all := r.parked(t); len(all) != 1 {
		t.Errorf("%+v, want one row", all)
	}
}

// The table takes headers that are strings, and nothing else; that a relay survives others
// is for tables whose CHECK somebody has dropped.
func TestHeadersThatAreNoStrings(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	const row = `INSERT INTO outbox (event_id, bus, payload, headers) VALUES (gen_random_uuid(), 'nats', '{"n": 2}', $1::jsonb)`
	for _, headers := range []string{`{"a": 1}`, `{"a": ["b"]}`, `{"a": null}`, `[]`} {
		if _, err := r.pool.Exec(t.Context(), row, headers); err == nil || !strings.Contains(err.Error(), "outbox_headers_check") {
			t.Errorf("%s: %v, want it to be refused", headers, err)
		}
	}
	r.exec(t, row, `{}`)
	r.exec(t, `ALTER TABLE outbox DROP CONSTRAINT outbox_headers_check`)
	r.exec(t, row, `{"a": 1}`)
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	await(t, func() bool { return len(r.parked(t)) == 1 })
	if n, err := outbox.RetryAll(t.Context(), r.pool, outbox.Filter{}, "anna"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	r.write(t, "nats", 1)
	await(t, func() bool { return len(b.Accepted()) == 2 }) // the first row and the last
	r.confirmed(t, "nats")
	if all := r.parked(t); len(all) != 1 || all[0].payload != `{"n": 2}` || !strings.Contains(all[0].reason, "unreadable headers") {
		t.Errorf("%+v, want the row as it was", all)
	}
	r.exec(t, `UPDATE outbox SET headers = '{"a": "1"}' WHERE status = 'failed'`) // a person mends it
	if n, err := outbox.RetryAll(t.Context(), r.pool, outbox.Filter{}, "anna"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	await(t, func() bool { return len(b.Accepted()) == 3 })
}

// A message that can be read, that the bus refuses, and that fits no row of the outbox.
func TestARefusedMessageThatFitsNoRow(t *testing.T) {
	r := newRig(t, "nats")
	b := &shoptest.Bus{Fail: func(m bus.Message) error {
		if m.Topic != "safe" {
			return bus.ErrRejected
		}
		return nil
	}}
	for _, m := range []bus.Message{
		{ID: uuid.NewString(), Topic: "none", Payload: []byte("no JSON")},
		{ID: uuid.NewString(), Topic: "nul\x00", Payload: []byte(`{}`)},
	} {
		content, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r.exec(t, emit, r.lane("nats").Prefix(), content)
	}
	id := r.write(t, "nats", 1)[0]
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	arrives(t, b, []string{id})
	r.confirmed(t, "nats")
	if failed, err := outbox.Failed(context.Background(), r.pool, outbox.Filter{}); err != nil || len(failed) != 2 || failed[0].Attempts != 1 {
		t.Errorf("%+v, %v, want the two messages", failed, err)
	}
}
