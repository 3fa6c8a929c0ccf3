package outbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
)

// fill writes n rows of a state and returns their ids.
func fill(t *testing.T, pool *pgxpool.Pool, n int, busName, status, lastError string) []int64 {
	t.Helper()
	const insert = `INSERT INTO outbox (event_id, bus, payload, status, attempts, last_error, sent_at)
		VALUES ($1, $2, '{}', $3, 5, nullif($4, ''), CASE WHEN $3 = 'sent' THEN now() END) RETURNING id`
	ids := make([]int64, n)
	for i := range ids {
		row := pool.QueryRow(t.Context(), insert, uuid.NewString(), busName, status, lastError)
		if err := row.Scan(&ids[i]); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func TestFailedPagesAndFilters(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	fill(t, pool, 2, "nats", "pending", "")
	refused := fill(t, pool, 3, "kafka", "failed", "dial: connection REFUSED 100%")
	tooBig := fill(t, pool, 2, "nats", "failed", "message too large")
	fill(t, pool, 2, "nats", "sent", "")

	tests := []struct {
		name   string
		filter outbox.Filter
		want   []int64
	}{
		{"all", outbox.Filter{}, append(append([]int64{}, refused...), tooBig...)},
		{"a page", outbox.Filter{Limit: 2}, refused[:2]},
		{"the page after it", outbox.Filter{After: refused[1], Limit: 2}, []int64{refused[2], tooBig[0]}},
		{"one bus", outbox.Filter{Bus: "nats"}, tooBig},
		{"an error, in any case", outbox.Filter{Error: "connection refused"}, refused},
		{"a per cent sign is a per cent sign", outbox.Filter{Error: "100%"}, refused},
		{"and no wildcard", outbox.Filter{Error: "d%l"}, nil},
		{"nothing matches both", outbox.Filter{Bus: "nats", Error: "refused"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, err := outbox.Failed(t.Context(), pool, tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != len(tt.want) {
				t.Fatalf("%d rows, want %d: %+v", len(rows), len(tt.want), rows)
			}
			for i, r := range rows {
				if r.ID != tt.want[i] || r.Status != "failed" {
					t.Errorf("row %d is %+v, want id %d", i, r, tt.want[i])
				}
			}
		})
	}
}

func TestRetry(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	failed := fill(t, pool, 1, "kafka", "failed", "refused")[0]
	sent := fill(t, pool, 1, "kafka", "sent", "")[0]

	row, err := outbox.Retry(t.Context(), pool, failed)
	if err != nil {
		t.Fatal(err)
	}
	if row.Status != "pending" || row.Attempts != 0 || row.LastError != "refused" {
		t.Errorf("retried row is %+v, want pending, 0 attempts, the old error", row)
	}
	stored := pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE id = $1
		AND status = 'pending' AND attempts = 0 AND last_error = 'refused'`, failed)
	if stored != 1 {
		t.Error("the table does not say what Retry returned")
	}
	for _, tt := range []struct {
		id   int64
		want error
	}{{failed, outbox.ErrNotFailed}, {sent, outbox.ErrNotFailed}, {1 << 40, outbox.ErrUnknown}, {-1, outbox.ErrUnknown}} {
		if _, err := outbox.Retry(t.Context(), pool, tt.id); !errors.Is(err, tt.want) {
			t.Errorf("retry of %d: %v, want %v", tt.id, err, tt.want)
		}
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE id = $1 AND status = 'sent'`, sent); n != 1 {
		t.Error("a refused retry changed the sent row")
	}
}

func TestOfParallelRetriesExactlyOneWins(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	for range 20 {
		id := fill(t, pool, 1, "redis", "failed", "refused")[0]
		if won := race(t, pool, id, 6); won != 1 {
			t.Fatalf("%d retries of row %d succeeded, want 1", won, id)
		}
	}
}

// race retries a row n times at once and counts the winners.
func race(t *testing.T, pool *pgxpool.Pool, id int64, n int) (won int) {
	t.Helper()
	var all sync.WaitGroup
	outcomes := make(chan error, n)
	for range n {
		all.Go(func() {
			_, err := outbox.Retry(context.Background(), pool, id)
			outcomes <- err
		})
	}
	all.Wait()
	close(outcomes)
	for err := range outcomes {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, outbox.ErrNotFailed):
			t.Errorf("loser got %v, want ErrNotFailed", err)
		}
	}
	return won
}
