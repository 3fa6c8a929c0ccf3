package cdc_test

import (
	"context"
	"testing"

	"outboxplayground/core/cdc"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// The log has a COMMIT a moment before anybody sees what it wrote. Here that moment is made
// long: the retry is committed by itself, and the row that it is about is not yet.
func TestARetryWhoseRowIsNotVisibleYet(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	id := r.write(t, "redis", 1)[0]
	r.exec(t, `UPDATE outbox SET bus = 'nats', status = 'failed'`)
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	var xid string
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if err := tx.QueryRow(t.Context(), `UPDATE outbox SET status = 'pending' RETURNING pg_current_xact_id()::text`).Scan(&xid); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `INSERT INTO retries (outbox_id, event_id, attempts, by) SELECT id, event_id, attempts, 'anna' FROM outbox`)
	const waits = `SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted AND transactionid::text = $1`
	await(t, func() bool { return pgtest.Count(t, r.pool, waits, xid) > 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	arrives(t, b, []string{id})
}
