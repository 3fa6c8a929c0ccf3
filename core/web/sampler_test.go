package web_test

import (
	"testing"

	"outboxplayground/core/lab"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/web"
)

// Where the log is the queue every row says pending for ever. The charts count what the
// slot has passed as sent, as the figures beside them do.
func TestSamplesOfALogGoByTheSlot(t *testing.T) {
	pool, _ := pgtest.Schema(t, 8)
	for _, sql := range []string{
		`INSERT INTO outbox (event_id, bus, payload) VALUES (gen_random_uuid(), 'nats', '{}')`,
		`INSERT INTO slots (bus, since) VALUES ('nats', pg_current_wal_insert_lsn())`,
		`INSERT INTO outbox (event_id, bus, payload) VALUES (gen_random_uuid(), 'nats', '{}')`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for log, pending := range map[bool]int64{true: 1, false: 2} {
		s, err := web.ReadStats(t.Context(), pool, lab.Chapter{Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if s.Pending != pending || s.Sent != 2-pending {
			t.Errorf("log %v: %d pending and %d sent, want %d and %d", log, s.Pending, s.Sent, pending, 2-pending)
		}
	}
}
