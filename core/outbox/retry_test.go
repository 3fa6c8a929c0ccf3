package outbox_test

import (
	"errors"
	"testing"

	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// Case 36: a retry has to set back everything that a claim looks at, or the row
// stays where it is. On every form that the table takes from chapter to chapter.
func TestARetryIsClaimedByTheNextPoll(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			id := fill(t, pool, 1, "nats", "failed", "refused")[0]
			exec(t, pool, `UPDATE outbox SET next_attempt_at = now() + interval '1 hour'`)
			row, err := outbox.Retry(t.Context(), pool, id)
			if err != nil || row.Status != "pending" || row.Attempts != 0 {
				t.Fatalf("Retry = %+v, %v, want it pending with 0 attempts", row, err)
			}
			r := relay(t, pool, &shoptest.Bus{}, outbox.Config{Queue: q.queue})
			if res := step(t, r); res.Sent != 1 {
				t.Errorf("%+v, want the row sent by the next poll", res)
			}
		})
	}
}

func TestWhoRetriedWhenIsKept(t *testing.T) {
	pool, _ := pgtest.Schema(t, 4)
	rows := fill(t, pool, 2, "nats", "failed", "refused")
	if _, err := outbox.RetryAs(t.Context(), pool, rows[0], "M\x00ei"); err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Retry(t.Context(), pool, rows[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.RetryAs(t.Context(), pool, rows[0], "Chen"); !errors.Is(err, outbox.ErrNotFailed) {
		t.Errorf("second retry: %v", err)
	}
	const kept = `SELECT count(*) FROM retries WHERE outbox_id = $1 AND by = coalesce(nullif($2, ''), session_user)
		AND attempts = 5 AND last_error = 'refused' AND at > now() - interval '1 minute'`
	for i, who := range []string{"Mei", ""} {
		if n := pgtest.Count(t, pool, kept, rows[i], who); n != 1 {
			t.Errorf("%d records of the retry of row %d by %q, want 1", n, rows[i], who)
		}
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM retries`); n != 2 {
		t.Errorf("%d records, want 2: a refused retry is none", n)
	}
}

// Case 42.
func TestRetryAllOfAFilter(t *testing.T) {
	for _, chapter := range []int{3, 4, 5} {
		pool, _ := pgtest.Schema(t, chapter)
		fill(t, pool, 4, "kafka", "failed", "connection REFUSED")
		fill(t, pool, 3, "nats", "failed", "connection refused")
		fill(t, pool, 2, "nats", "failed", "message too large")
		fill(t, pool, 1, "nats", "sent", "")
		for _, tt := range []struct {
			filter outbox.Filter
			want   int64
		}{
			{outbox.Filter{Bus: "redis"}, 0},
			{outbox.Filter{Bus: "nats", Error: "refused"}, 3},
			{outbox.Filter{Error: "Refused", Limit: 3}, 3},
			{outbox.Filter{}, 3},
			{outbox.Filter{}, 0},
		} {
			n, err := outbox.RetryAll(t.Context(), pool, tt.filter, "Mei")
			if err != nil || n != tt.want {
				t.Errorf("chapter %d, %+v: %d, %v, want %d", chapter, tt.filter, n, err, tt.want)
			}
		}
		if p, s := pending(t, pool), pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE status = 'sent'`); p != 9 || s != 1 {
			t.Errorf("chapter %d: %d pending, %d sent, want 9 and 1", chapter, p, s)
		}
		if chapter > 3 {
			if n := pgtest.Count(t, pool, `SELECT count(*) FROM retries WHERE by = 'Mei'`); n != 9 {
				t.Errorf("chapter %d: %d retries kept, want 9", chapter, n)
			}
		}
	}
}

func TestRetryAllGoesThroughManyPages(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	exec(t, pool, `INSERT INTO outbox (event_id, bus, payload, status, attempts, last_error)
		SELECT gen_random_uuid(), 'nats', '{}', 'failed', 5, 'x' FROM generate_series(1, 2500)`)
	n, err := outbox.RetryAll(t.Context(), pool, outbox.Filter{}, "")
	if err != nil || n != 2500 || pending(t, pool) != 2500 {
		t.Errorf("RetryAll = %d, %v, %d pending, want 2500", n, err, pending(t, pool))
	}
}

// Case 38: every state and every action. Only a failed row can be retried, only a
// pending one claimed and marked, and a sent one stays sent.
func TestTheStateMachine(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	retry := func(id int64) bool { _, err := outbox.Retry(t.Context(), pool, id); return err == nil }
	claimIt := func(id int64) bool {
		return len(claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 10, After: id - 1})) == 1
	}
	mark := func(s func(outbox.Entry) outbox.Settlement) func(int64) bool {
		return func(id int64) bool {
			n, err := outbox.Leased{}.Settle(t.Context(), pool, s(outbox.Entry{ID: id, Attempts: 5, Token: 7}))
			return err == nil && n == 0
		}
	}
	one := func(e outbox.Entry) []outbox.Mark { return []outbox.Mark{{Entry: e}} }
	actions := map[string]func(int64) bool{
		"retry": retry, "claim": claimIt,
		"sent":  mark(func(e outbox.Entry) outbox.Settlement { return outbox.Settlement{Sent: []outbox.Entry{e}} }),
		"park":  mark(func(e outbox.Entry) outbox.Settlement { return outbox.Settlement{Parked: one(e)} }),
		"again": mark(func(e outbox.Entry) outbox.Settlement { return outbox.Settlement{Retried: one(e)} }),
		"defer": mark(func(e outbox.Entry) outbox.Settlement { return outbox.Settlement{Deferred: one(e)} }),
	}
	// From pending (leased under token 7, or free) to …; "" is refused.
	want := map[string]map[string]string{
		"free":   {"claim": "pending", "retry": "", "sent": "", "park": "", "again": "", "defer": ""},
		"leased": {"claim": "", "retry": "", "sent": "sent", "park": "failed", "again": "pending", "defer": "pending"},
		"sent":   {"claim": "", "retry": "", "sent": "", "park": "", "again": "", "defer": ""},
		"failed": {"claim": "", "retry": "pending", "sent": "", "park": "", "again": "", "defer": ""},
	}
	for state, row := range want {
		for action, to := range row {
			status := state
			if state == "free" || state == "leased" {
				status = "pending"
			}
			id := fill(t, pool, 1, "nats", status, "x")[0]
			if state == "leased" {
				exec(t, pool, `INSERT INTO outbox_claims VALUES (7, 'nats', $1, $1, now() + interval '1 minute')`, id)
			}
			done := actions[action](id)
			var now string
			if err := pool.QueryRow(t.Context(), `SELECT status FROM outbox WHERE id = $1`, id).Scan(&now); err != nil {
				t.Fatal(err)
			}
			if done != (to != "") || (done && now != to) || (!done && now != status) {
				t.Errorf("%s, %s: done %v, now %s; want %q", state, action, done, now, to)
			}
			exec(t, pool, `TRUNCATE outbox, outbox_claims`)
		}
	}
}
