package cdc_test

import (
	"context"
	"testing"

	"outboxplayground/core/cdc"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// invisible commits the retry of a row whose change to pending is not committed yet, and
// waits for somebody to wait for that. The log has a COMMIT a moment before anybody sees
// what it wrote: here that moment is made long.
func (r *rig) invisible(t *testing.T, meanwhile func()) {
	t.Helper()
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	var xid string
	if err := tx.QueryRow(t.Context(), `UPDATE outbox SET status = 'pending' RETURNING pg_current_xact_id()::text`).Scan(&xid); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `INSERT INTO retries (outbox_id, event_id, attempts, by) SELECT id, event_id, attempts, 'anna' FROM outbox`)
	meanwhile()
	const waits = `SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted AND transactionid::text = $1`
	await(t, func() bool { return pgtest.Count(t, r.pool, waits, xid) > 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const failedRow = `INSERT INTO outbox (event_id, bus, payload, status) VALUES (gen_random_uuid(), 'nats', '{}', 'failed')`

func TestARetryWhoseRowIsNotVisibleYet(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	r.exec(t, failedRow)
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	r.invisible(t, func() {})
	await(t, func() bool { return len(b.Accepted()) == 1 })
}

func TestTendAndARetryWhoseRowIsNotVisibleYet(t *testing.T) {
	r := newRig(t, "nats")
	r.exec(t, failedRow)
	before := r.slot(t, "nats").Confirmed
	tended := make(chan error, 1)
	r.invisible(t, func() { go func() { tended <- cdc.Tend(t.Context(), r.pool, r.lane("nats")) }() })
	if err := <-tended; err != nil {
		t.Fatal(err)
	}
	if after := r.slot(t, "nats").Confirmed; after != before {
		t.Errorf("moved from %s to %s past a retry", before, after)
	}
}
