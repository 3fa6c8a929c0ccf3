package outbox_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
)

func TestStatsOfAnEmptyOutbox(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	s, err := outbox.ReadStats(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if s.Counts != (outbox.Counts{}) || len(s.ByBus) != 0 {
		t.Errorf("%+v, want zeros and no lag", s)
	}
}

func TestStatsCountEachBus(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	fill(t, pool, 3, "nats", "pending", "")
	old := fill(t, pool, 1, "kafka", "pending", "")[0]
	fill(t, pool, 2, "kafka", "failed", "refused")
	fill(t, pool, 4, "nats", "sent", "")
	const age = `UPDATE outbox SET created_at = created_at - interval '1 minute' WHERE id = $1`
	if _, err := pool.Exec(t.Context(), age, old); err != nil {
		t.Fatal(err)
	}

	s, err := outbox.ReadStats(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if s.Pending != 4 || s.Failed != 2 || s.Sent != 4 {
		t.Errorf("all: %+v, want 4 pending, 2 failed, 4 sent", s.Counts)
	}
	if k := s.ByBus["kafka"]; k.Pending != 1 || k.Failed != 2 || k.Sent != 0 {
		t.Errorf("kafka: %+v, want 1 pending, 2 failed", k)
	}
	if n := s.ByBus["nats"]; n.Pending != 3 || n.Sent != 4 || *n.OldestPendingLagMS > 30_000 {
		t.Errorf("nats: %+v, want 3 pending, 4 sent, a small lag", n)
	}
	if lag := *s.OldestPendingLagMS; lag < 60_000 || lag > 90_000 {
		t.Errorf("lag %d ms, want that of the oldest row, a minute", lag)
	}
}

// On top of many sent rows, what asks for pending ones must use the partial index:
// this is what the literal status='pending' is for.
func TestPendingUsesThePartialIndex(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	const many = `INSERT INTO outbox (event_id, bus, payload, status, sent_at)
		SELECT gen_random_uuid(), 'nats', '{}', 'sent', now() FROM generate_series(1, 20000)`
	if _, err := pool.Exec(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	fill(t, pool, 10, "nats", "pending", "")
	if _, err := pool.Exec(t.Context(), `ANALYZE outbox`); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), "EXPLAIN "+outbox.CountRows)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "outbox_pending") {
		t.Errorf("the index outbox_pending is not used:\n%s", text)
	}
}
