package outbox_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
)

// age moves all rows so far into the past.
func age(t *testing.T, pool *pgxpool.Pool, by string) {
	exec(t, pool, `UPDATE outbox SET created_at = created_at - $1::interval, sent_at = sent_at - $1::interval`, by)
}

// Cases 50 and 51: sent rows older than an hour go, in small transactions; pending
// and failed ones stay, however old.
func TestPurge(t *testing.T) {
	for _, chapter := range []int{3, 5} {
		pool, _ := pgtest.Schema(t, chapter)
		for range 5 {
			fill(t, pool, 20, "nats", "sent", "")
			fill(t, pool, 2, "nats", "pending", "")
			fill(t, pool, 2, "nats", "failed", "refused")
		}
		age(t, pool, "2 hours")
		young := fill(t, pool, 3, "nats", "sent", "")
		largest := int64(0)
		db := counting{Pool: pool, largest: &largest}
		n, err := outbox.Purge(t.Context(), db, time.Hour, 7)
		if err != nil || n != 100 {
			t.Errorf("chapter %d: Purge = %d, %v, want 100", chapter, n, err)
		}
		if largest == 0 || largest > 7 {
			t.Errorf("chapter %d: %d rows in one transaction, want 7 at most", chapter, largest)
		}
		left := pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE status <> 'sent' OR id = ANY ($1)`, young)
		if all := pgtest.Count(t, pool, `SELECT count(*) FROM outbox`); left != 23 || all != 23 {
			t.Errorf("chapter %d: %d rows left, %d that should be, want 23", chapter, all, left)
		}
		if n, err := outbox.Purge(t.Context(), pool, time.Hour, 0); n != 0 || err != nil {
			t.Errorf("chapter %d: again: %d, %v", chapter, n, err)
		}
	}
}

// Case 50: many sent rows (300,000; otherwise 5,000) go in transactions of a thousand.
func TestPurgeOfManyIsManySmallOnes(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	n := sized(5_000, 300_000)
	rows(t, pool, n, 1, "sent")
	age(t, pool, "2 hours")
	largest := int64(0)
	removed, err := outbox.Purge(t.Context(), counting{Pool: pool, largest: &largest}, time.Hour, 0)
	if err != nil || removed != int64(n-n/100) || largest > 1000 {
		t.Errorf("Purge = %d, %v, at most %d in a transaction; want %d of %d, at most 1000", removed, err, largest, n-n/100, n)
	}
	if left := pending(t, pool); left != n/100 {
		t.Errorf("%d pending rows are left, want %d", left, n/100)
	}
}

type counting struct {
	*pgxpool.Pool
	largest *int64
}

func (c counting) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := c.Pool.Exec(ctx, sql, args...)
	*c.largest = max(*c.largest, tag.RowsAffected())
	return tag, err
}

func TestPurgesSideBySide(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	exec(t, pool, `INSERT INTO outbox (event_id, bus, payload, status, created_at, sent_at)
		SELECT gen_random_uuid(), 'nats', '{}', 'sent', now() - interval '1 day', now() - interval '1 day' FROM generate_series(1, 3000)`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := outbox.Purge(t.Context(), pool, time.Hour, 100); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, err := outbox.Purge(t.Context(), pool, time.Hour, 0); err != nil || pgtest.Count(t, pool, `SELECT count(*) FROM outbox`) != 0 {
		t.Errorf("rows are left after %d more, %v", n, err)
	}
}

func TestPurgeRefusesNonsense(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	fill(t, pool, 1, "nats", "sent", "")
	if _, err := outbox.Purge(t.Context(), pool, -time.Second, 0); err == nil {
		t.Error("a negative time would remove what is sent tomorrow: no error")
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox`); n != 1 {
		t.Error("the row is gone")
	}
}

// Case 45: no statement of this package can remove a row that has not been sent. A
// claim that is over may go: it is not an event.
func TestTheOnlyDeleteIsThatOfSentRows(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%v, %v", files, err)
	}
	deletes := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range regexp.MustCompile("(?s)`[^`]*`").FindAllString(string(text), -1) {
			events := strings.ReplaceAll(sql, "DELETE FROM outbox_claims ", "")
			if !regexp.MustCompile(`(?i)\b(DELETE|TRUNCATE|DROP)\b`).MatchString(events) {
				continue
			}
			if deletes++; !strings.Contains(sql, `status = 'sent'`) {
				t.Errorf("%s removes rows that may not have been sent: %s", f, sql)
			}
		}
	}
	if deletes != 1 {
		t.Errorf("%d statements that remove rows, want Purge's alone", deletes)
	}
}
