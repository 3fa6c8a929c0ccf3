package outbox_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// claim takes rows as a worker does.
func claim(t testing.TB, pool *pgxpool.Pool, q outbox.Queue, w outbox.Want) (rows []outbox.Entry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		rows, err = q.Claim(ctx, tx, w)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return rows
}

// inTheGap runs a relay that stands between publish and mark of its first row while
// do happens.
func inTheGap(t *testing.T, pool *pgxpool.Pool, b bus.Bus, q outbox.Queue, do func()) outbox.Result {
	t.Helper()
	steps := &checkpoint.Steps{}
	steps.Arm(checkpoint.Plan{At: checkpoint.BeforeMark, Do: func(context.Context) error { do(); return nil }})
	return step(t, relay(t, pool, b, outbox.Config{Queue: q, Steps: steps}))
}

// Case 17: while the first worker is between publish and mark, a second one claims.
// Without leases it sends everything again; with them it finds nothing.
func TestTwoWorkers(t *testing.T) {
	for name, want := range map[string]int{"plain": 10, "leased": 0} {
		t.Run(name, func(t *testing.T) {
			q := queues()[name]
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 10)
			b := &shoptest.Bus{}
			second := relay(t, pool, b, outbox.Config{Queue: q.queue})
			first := inTheGap(t, pool, b, q.queue, func() {
				if res := step(t, second); res.Claimed != want {
					t.Errorf("the second worker claimed %d rows, want %d", res.Claimed, want)
				}
			})
			if n := duplicates(b.Accepted()); n != want {
				t.Errorf("%d repeats, want %d", n, want)
			}
			if first.Conflicts != want {
				t.Errorf("%d conflicts counted, want %d", first.Conflicts, want)
			}
			if n := with(t, pool, "sent", 0); n != 10 {
				t.Errorf("%d rows sent, want 10", n)
			}
		})
	}
}

// Case 20: whatever a zombie wants to write down about its row, the fence refuses:
// also when the next worker has given the row up or back, so that no token is there.
func TestTheFence(t *testing.T) {
	q := outbox.Leased{}
	mark := func(e outbox.Entry) []outbox.Mark { return []outbox.Mark{{Entry: e, Error: "zombie"}} }
	zombies := map[string]func(e outbox.Entry) outbox.Settlement{
		"sent": func(e outbox.Entry) outbox.Settlement {
			return outbox.Settlement{Sent: []outbox.Entry{e}}
		},
		"deferred": func(e outbox.Entry) outbox.Settlement { return outbox.Settlement{Deferred: mark(e)} },
		"retried":  func(e outbox.Entry) outbox.Settlement { return outbox.Settlement{Retried: mark(e)} },
		"parked":   func(e outbox.Entry) outbox.Settlement { return outbox.Settlement{Parked: mark(e)} },
	}
	next := map[string]func(t *testing.T, pool *pgxpool.Pool, e outbox.Entry){
		"holds it": func(*testing.T, *pgxpool.Pool, outbox.Entry) {},
		"sent it": func(t *testing.T, pool *pgxpool.Pool, e outbox.Entry) {
			settle(t, pool, outbox.Settlement{Sent: []outbox.Entry{e}}, 0)
		},
		"parked it": func(t *testing.T, pool *pgxpool.Pool, e outbox.Entry) {
			settle(t, pool, outbox.Settlement{Parked: mark(e)}, 0)
		},
		"gave it back": func(t *testing.T, pool *pgxpool.Pool, e outbox.Entry) {
			if err := q.Release(t.Context(), pool, []outbox.Entry{e}); err != nil {
				t.Error(err)
			}
		},
	}
	pool, _ := pgtest.Schema(t, 5)
	const state = `SELECT status || attempts || coalesce(last_error, '-') || coalesce((SELECT max(token) FROM outbox_claims), 0)
		FROM outbox WHERE id = $1`
	for what, then := range next {
		for fate, zombie := range zombies {
			write(t, pool, "nats", 1)
			old := claim(t, pool, q, outbox.Want{Bus: "nats", Limit: 1})[0]
			expire(t, pool)
			current := claim(t, pool, q, outbox.Want{Bus: "nats", Limit: 1})[0]
			if current.ID != old.ID || current.Token == old.Token {
				t.Fatalf("claimed %+v after %+v, want the same row under another token", current, old)
			}
			then(t, pool, current)
			var before, after string
			if err := pool.QueryRow(t.Context(), state, old.ID).Scan(&before); err != nil {
				t.Fatal(err)
			}
			settle(t, pool, zombie(old), 1)
			if err := q.Release(t.Context(), pool, []outbox.Entry{old}); err != nil {
				t.Error(err)
			}
			if err := pool.QueryRow(t.Context(), state, old.ID).Scan(&after); err != nil {
				t.Fatal(err)
			}
			if before != after {
				t.Errorf("the next worker %s, the zombie marks it %s: %s became %s", what, fate, before, after)
			}
			exec(t, pool, `TRUNCATE outbox, outbox_claims`)
		}
	}
}

func settle(t *testing.T, db outbox.DB, s outbox.Settlement, conflicts int) {
	t.Helper()
	n, err := outbox.Leased{}.Settle(t.Context(), db, s)
	if err != nil || n != conflicts {
		t.Errorf("Settle = %d conflicts, %v, want %d", n, err, conflicts)
	}
}

// Many at once: a claim takes its limit and no more, no row is in two hands, and
// none is left over.
func TestClaimsAreExactAndDisjoint(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 700)
	var mu sync.Mutex
	seen := map[int64]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				rows := claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 30})
				mu.Lock()
				for _, e := range rows {
					if seen[e.ID] {
						t.Errorf("row %d is in two hands", e.ID)
					}
					seen[e.ID] = true
				}
				mu.Unlock()
				if len(rows) > 30 {
					t.Errorf("%d rows claimed, the limit was 30", len(rows))
				}
				if !slices.IsSortedFunc(rows, func(a, b outbox.Entry) int { return int(a.ID - b.ID) }) {
					t.Error("the rows are not in the order of id")
				}
				if len(rows) == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	if len(seen) != 700 {
		t.Errorf("%d rows claimed, want 700", len(seen))
	}
}

// Cases 22 and 24: a sweep passes over rows whose lease is live; a dead worker's
// rows come back by themselves when theirs is over, and cost no attempt.
func TestADeadWorkersRowsComeBack(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 4)
	dead := claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 2})
	b := &shoptest.Bus{}
	r := relay(t, pool, b, outbox.Config{Poll: 1})
	if res := step(t, r); res.Claimed != 2 {
		t.Fatalf("%+v, want the two that nobody holds", res)
	}
	if res := step(t, r); res.Claimed != 0 {
		t.Fatalf("%+v: a live lease was not respected", res)
	}
	expire(t, pool)
	var res outbox.Result
	await(t, func() bool { res = step(t, r); return res.Claimed > 0 })
	if res.Sent != len(dead) || with(t, pool, "sent", 0) != 4 {
		t.Errorf("%+v, want the dead worker's rows, without an attempt", res)
	}
}

// A short lease, and nobody helps: its end is found within a poll.
func TestTheLeaseEndsByTheDatabasesClock(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 1)
	q := outbox.Leased{For: 300e6}
	claim(t, pool, q, outbox.Want{Bus: "nats", Limit: 1})
	b := &shoptest.Bus{}
	run(t, func() bool { return len(b.Accepted()) == 1 }, relay(t, pool, b, outbox.Config{Queue: q, Poll: 50e6}))
}

// Case 18: a new version starts before the old one stops. Case 23: a worker that is
// stopped with rows in hand gives them back or finishes them.
func TestOverlappingWorkersSendOnce(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 500)
	b := &shoptest.Bus{}
	cfg := outbox.Config{Batch: 10, Poll: 10e6}
	ctx, stopOld := context.WithCancel(t.Context())
	old, done := relay(t, pool, b, cfg), make(chan error, 1)
	go func() { done <- old.Run(ctx) }()
	await(t, func() bool { return len(b.Accepted()) >= 50 })
	run(t, func() bool {
		if len(b.Accepted()) > 200 {
			stopOld()
		}
		return pending(t, pool) == 0
	}, relay(t, pool, b, cfg))
	stopOld()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := len(b.Accepted()); n != 500 || duplicates(b.Accepted()) != 0 {
		t.Errorf("%d messages, %d repeats, want 500 and none", n, duplicates(b.Accepted()))
	}
}

// Where REPEATABLE READ is the database's default, a claim that had to wait for
// another one would not see it. The relay asks for READ COMMITTED.
func TestClaimsUnderRepeatableRead(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 200)
	b := &shoptest.Bus{}
	var relays []*outbox.Relay
	for range 4 {
		relays = append(relays, relay(t, repeatable{pool, pool}, b, outbox.Config{Batch: 5, Poll: 10e6}))
	}
	run(t, func() bool { return pending(t, pool) == 0 }, relays...)
	if n := duplicates(b.Accepted()); n != 0 {
		t.Errorf("%d repeats", n)
	}
}

// repeatable is a database of which nothing is known but that it can begin.
type repeatable struct {
	outbox.DB
	pool *pgxpool.Pool
}

func (r repeatable) Begin(ctx context.Context) (pgx.Tx, error) {
	return r.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
}

// A worker that is writing down its result keeps its claim, however late it is: the
// next one finds nothing until that is over.
func TestALateSettlementUnderWayKeepsItsRows(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 2)
	late := claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 2})
	expire(t, pool)
	next := outbox.Want{Bus: "nats", Limit: 2}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), outbox.EndClaim, late[0].Token); err != nil {
			return err
		}
		if rows := claim(t, pool, outbox.Leased{}, next); len(rows) != 0 {
			t.Errorf("%d rows claimed from under a settlement", len(rows))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if rows := claim(t, pool, outbox.Leased{}, next); len(rows) != 2 {
		t.Errorf("%d rows claimed after it, want the two still pending", len(rows))
	}
}

// What is left out of a settlement stays in hand; what is in it is written.
func TestAPartialSettlementKeepsTheClaim(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 3)
	rows := claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 3})
	settle(t, pool, outbox.Settlement{Partial: true, Sent: rows[:1]}, 0)
	if again := claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 3}); len(again) != 0 {
		t.Errorf("%d rows claimed, which are still in hand", len(again))
	}
	settle(t, pool, outbox.Settlement{Sent: rows[1:]}, 0)
	if n := with(t, pool, "sent", 0); n != 3 {
		t.Errorf("%d rows sent, want 3", n)
	}
	settle(t, pool, outbox.Settlement{Sent: rows}, 3)
}

// Several claims are settled in one statement. One that is somebody else's by then keeps
// its rows out of it, although another claim's range holds them.
func TestClaimsAreSettledTogether(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 6)
	next := func(n int) []outbox.Entry {
		return claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: n})
	}
	around, lost := next(1), next(2)
	exec(t, pool, `DELETE FROM outbox_claims WHERE token = $1`, lost[0].Token)
	mine := next(2)
	if mine[0].ID != lost[0].ID {
		t.Fatalf("row %d was claimed, want the lost %d", mine[0].ID, lost[0].ID)
	}
	late := next(3)
	exec(t, pool, `UPDATE outbox_claims SET last_id = $2 WHERE token = $1`, around[0].Token, late[2].ID)
	settle(t, pool, outbox.Settlement{Sent: slices.Concat(around, lost, late)}, 2)
	for _, want := range []struct {
		sql string
		n   int
	}{
		{`SELECT count(*) FROM outbox WHERE status = 'sent'`, 4},
		{`SELECT count(*) FROM outbox_claims`, 1}, // the one that took over
	} {
		if n := pgtest.Count(t, pool, want.sql); n != want.n {
			t.Errorf("%s: %d, want %d", want.sql, n, want.n)
		}
	}
	settle(t, pool, outbox.Settlement{Sent: mine}, 0)
}

// A row that becomes due between claimed ones waits for that claim, and no longer.
func TestARowBetweenClaimedOnesWaits(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 3)
	exec(t, pool, `UPDATE outbox SET next_attempt_at = now() + interval '1 hour' WHERE id = 2`)
	rows := claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 3})
	due(t, pool)
	if early := claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 3}); len(rows) != 2 || len(early) != 0 {
		t.Errorf("%d and %d rows claimed, want 1 and 3, and then none", len(rows), len(early))
	}
	settle(t, pool, outbox.Settlement{Sent: rows}, 0)
	if late := claim(t, pool, outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 3}); len(late) != 1 || late[0].ID != 2 {
		t.Errorf("%+v claimed, want row 2", late)
	}
}

// A worker that is stopped inside a claim must not keep the others from the bus: its
// session is ended, and its claim with it.
func TestStoppedInsideAClaim(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 3)
	q, want := outbox.Leased{}, outbox.Want{Bus: "nats", Limit: 10}
	stopped, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Rollback(context.WithoutCancel(t.Context()))
	if rows, err := q.Claim(t.Context(), stopped, want); err != nil || len(rows) != 3 {
		t.Fatalf("claimed %d rows, error %v", len(rows), err)
	}
	if rows := claim(t, pool, q, want); len(rows) != 3 {
		t.Errorf("the next worker claimed %d rows, want 3", len(rows))
	}
	if err := stopped.Commit(t.Context()); err == nil {
		t.Error("the stopped worker's claim was committed after all")
	}
}
