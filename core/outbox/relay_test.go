package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

func TestStepSendsABatchInOrderAndMarksIt(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			ids := write(t, pool, "nats", 5)
			write(t, pool, "kafka", 1)
			b := &batches{}
			r := relay(t, pool, b, outbox.Config{Queue: q.queue, Batch: 3})
			if res := step(t, r); res.Claimed != 3 || res.Sent != 3 || res.Next != 0 {
				t.Errorf("full batch: %+v, want 3 sent and more at once", res)
			}
			if res := step(t, r); res.Sent != 2 || res.Next == 0 {
				t.Errorf("the rest: %+v, want 2 sent and a wait", res)
			}
			if res := step(t, r); res != (outbox.Result{Next: 500 * time.Millisecond}) {
				t.Errorf("nothing left: %+v", res)
			}
			for i, m := range b.Accepted() {
				if m.ID != ids[i] || m.Topic != "safe" || m.Key != "u1" {
					t.Errorf("message %d is %+v, want event %s", i, m, ids[i])
				}
			}
			if sizes := b.published(); !slices.Equal(sizes, []int{3, 2}) {
				t.Errorf("publishes of %v, want one for each batch", sizes)
			}
			if n := with(t, pool, "sent", 0); n != 5 {
				t.Errorf("%d rows sent, want 5: the sixth is another bus's", n)
			}
		})
	}
}

// Cases 31 and 32: an outage, however often it is met, costs no attempt, and from
// the second meeting on it is met with one row.
func TestAnOutageCostsNoAttempt(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 20)
			b := &batches{Bus: shoptest.Bus{Fail: always(bus.ErrUnavailable)}}
			r := relay(t, pool, b, outbox.Config{Queue: q.queue})
			if res := step(t, r); !res.Unavailable || !res.Probing || res.Deferred != 20 {
				t.Fatalf("first meeting: %+v, want 20 deferred, probing", res)
			}
			var waits []time.Duration
			for range 9 {
				res := step(t, r)
				if res.Claimed != 1 || res.Deferred != 1 || !res.Probing {
					t.Fatalf("probe: %+v, want one row, deferred", res)
				}
				waits = append(waits, res.Next)
			}
			if w := waits[0]; w < 400*time.Millisecond || w > 600*time.Millisecond {
				t.Errorf("second wait %v, want 0.5 s ± 20 %%", w)
			}
			if w := waits[8]; w < 3200*time.Millisecond || w > 4*time.Second {
				t.Errorf("last wait %v, want 4 s at most and about", w)
			}
			if n := with(t, pool, "pending", 0); n != 20 {
				t.Fatalf("%d rows pending without an attempt, want 20", n)
			}
			b.Fail = nil
			if res := step(t, r); res.Sent != 1 || res.Probing || res.Next != 0 {
				t.Errorf("the broker is back: %+v, want the probe sent and more at once", res)
			}
			if res := step(t, r); res.Sent != 19 {
				t.Errorf("after the probe: %+v, want the other 19 at once", res)
			}
		})
	}
}

// Cases 41 and 44: what the broker will never take is parked at once, and the rows
// behind it do not wait.
func TestPoisonIsParkedAndBlocksNobody(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			ids := write(t, pool, "nats", 100)
			b := &batches{Bus: shoptest.Bus{Fail: func(m bus.Message) error {
				if m.ID == ids[0] {
					return fmt.Errorf("%w: too large \x00\xff", bus.ErrRejected)
				}
				return nil
			}}}
			r := relay(t, pool, b, outbox.Config{Queue: q.queue})
			if res := step(t, r); res.Sent != 99 || res.Parked != 1 || res.Probing || res.Next != 0 {
				t.Errorf("%+v, want 99 sent, 1 parked, no probing, on at once", res)
			}
			if sent, failed := with(t, pool, "sent", 0), with(t, pool, "failed", 1); sent != 99 || failed != 1 {
				t.Errorf("%d sent, %d failed after one attempt", sent, failed)
			}
			why := pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE status = 'failed' AND last_error LIKE '%too large%'`)
			if why != 1 {
				t.Error("the row does not say why")
			}
			stats, err := outbox.ReadStats(t.Context(), pool)
			if err != nil || stats.Failed != 1 || stats.Sent != 99 {
				t.Errorf("stats %+v, %v: a failed row must show, and not as sent", stats, err)
			}
		})
	}
}

// Case 33: in doubt only the row that was sent alone spends an attempt, waits for
// longer each time, and is parked at the fifth; the others get through meanwhile.
func TestDoubtCostsTheProbeAlone(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			ids := write(t, pool, "nats", 10)
			b := &batches{Bus: shoptest.Bus{Fail: func(m bus.Message) error {
				if m.ID == ids[0] {
					return errNetwork
				}
				return nil
			}}}
			r := relay(t, pool, b, outbox.Config{Queue: q.queue})
			if res := step(t, r); res.Sent != 9 || res.Deferred != 1 || !res.Probing {
				t.Fatalf("in a batch: %+v, want 9 sent and one deferred", res)
			}
			for n := 1; n <= 4; n++ {
				if res := step(t, r); res.Claimed != 1 || res.Retried != 1 {
					t.Fatalf("attempt %d: %+v, want one row retried", n, res)
				}
				wait := fmt.Sprintf("%d seconds", 1<<(n-1))
				grown := pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE attempts = $1 AND status = 'pending'
					AND next_attempt_at - clock_timestamp() BETWEEN $2::interval * 0.2 AND $2::interval * 1.2`, n, wait)
				if grown != 1 {
					t.Errorf("attempt %d: the row is not due again in about %s", n, wait)
				}
				if res := step(t, r); res.Claimed != 0 {
					t.Errorf("the row is claimed before its time: %+v", res)
				}
				due(t, pool)
			}
			if res := step(t, r); res.Parked != 1 {
				t.Errorf("fifth attempt: %+v, want it parked", res)
			}
			if n := with(t, pool, "failed", 5); n != 1 {
				t.Errorf("%d rows failed with 5 attempts, want 1", n)
			}
		})
	}
}

// A row in doubt waits for its time and not for ever: another one ends the probing.
func TestAnotherRowEndsTheProbing(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	ids := write(t, pool, "nats", 1)
	b := &shoptest.Bus{Fail: func(m bus.Message) error {
		if m.ID == ids[0] {
			return errNetwork
		}
		return nil
	}}
	r := relay(t, pool, b, outbox.Config{})
	if res := step(t, r); res.Retried != 1 || !res.Probing {
		t.Fatalf("alone: %+v, want an attempt spent", res)
	}
	write(t, pool, "nats", 3)
	if res := step(t, r); res.Sent != 1 || res.Probing {
		t.Fatalf("the next row: %+v, want it sent, and an end of the probing", res)
	}
	if res := step(t, r); res.Sent != 2 {
		t.Errorf("then: %+v, want full batches", res)
	}
}

// Cases 31 and 35: the article's policy gives every row up after five polls; a
// person's retry of the filter then sends them all.
func TestFivePollsAndTheManualLoop(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 12)
			b := &batches{Bus: shoptest.Bus{Fail: always(bus.ErrUnavailable)}}
			r := relay(t, pool, b, outbox.Config{Queue: q.queue, Policy: outbox.FivePolls{}, Batch: 12})
			for n := 1; n <= 4; n++ {
				if res := step(t, r); res.Retried != 12 || res.Next != 500*time.Millisecond {
					t.Fatalf("poll %d: %+v, want 12 attempts spent and a wait, although the batch was full", n, res)
				}
				r = relay(t, pool, b, outbox.Config{Queue: q.queue, Policy: outbox.FivePolls{}, Batch: 12})
			}
			if res := step(t, r); res.Parked != 12 {
				t.Fatalf("fifth poll: %+v, want all parked", res)
			}
			b.Fail = nil
			if res := step(t, r); res.Claimed != 0 {
				t.Fatalf("parked rows are claimed: %+v", res)
			}
			n, err := outbox.RetryAll(t.Context(), pool, outbox.Filter{Bus: "nats"}, "")
			if err != nil || n != 12 {
				t.Fatalf("RetryAll = %d, %v, want 12", n, err)
			}
			if res := step(t, relay(t, pool, b, outbox.Config{Queue: q.queue})); res.Sent != 12 {
				t.Errorf("after the retry: %+v, want 12 sent", res)
			}
		})
	}
}

func TestStepsAreReachedInOrder(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	ids := write(t, pool, "nats", 2)
	var seen []string
	steps := &checkpoint.Steps{Observe: func(at checkpoint.Name, id string) {
		seen = append(seen, fmt.Sprintf("%s %d", at, slices.Index(ids, id)))
	}}
	r := relay(t, pool, &shoptest.Bus{}, outbox.Config{Steps: steps})
	step(t, r)
	step(t, r)
	want := "claimed 0, claimed 1, before-publish 0, before-publish 1, after-publish 0, after-publish 1, " +
		"before-mark 0, before-mark 1, after-mark 0, after-mark 1, claimed -1"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("steps\n%s, want\n%s", got, want)
	}
}

// A step that fails costs what it would cost in reality: nothing before the
// publish, and a repeat after it.
func TestStepsThatFail(t *testing.T) {
	for name, q := range queues() {
		for at, again := range map[checkpoint.Name]int{
			checkpoint.Claimed: 0, checkpoint.BeforePublish: 0, checkpoint.AfterPublish: 1, checkpoint.BeforeMark: 1,
		} {
			t.Run(name+" "+string(at), func(t *testing.T) {
				pool, _ := pgtest.Schema(t, q.chapter)
				ids := write(t, pool, "nats", 3)
				b := &shoptest.Bus{}
				r := relay(t, pool, b, outbox.Config{Queue: q.queue, Steps: checkpoint.Fail(at, ids[1], errNetwork)})
				_, err := r.Step(t.Context())
				if told := errors.Is(err, errNetwork); told != (at == checkpoint.Claimed || at == checkpoint.BeforeMark) {
					t.Errorf("Step said %v", err)
				}
				if q.chapter == 5 {
					expire(t, pool)
				}
				await(t, func() bool { step(t, r); return pending(t, pool) == 0 })
				if n := with(t, pool, "sent", 0); n != 3 {
					t.Errorf("%d rows sent, want all 3, without an attempt", n)
				}
				if n := duplicates(b.Accepted()); n != again {
					t.Errorf("%d repeats, want %d", n, again)
				}
			})
		}
	}
}

// Case 52: a mark that fails after the publish makes one repeat, and no more.
func TestAMarkThatFailsMakesOneRepeat(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 1)
			fails := 1
			db := flaky{Pool: pool, exec: func() error {
				if fails--; fails >= 0 {
					return &pgconn.PgError{Code: "42501", Message: "permission denied"}
				}
				return nil
			}}
			b := &shoptest.Bus{}
			r := relay(t, db, b, outbox.Config{Queue: q.queue})
			if _, err := r.Step(t.Context()); err == nil {
				t.Fatal("a mark that failed is no error")
			}
			if q.chapter == 5 {
				expire(t, pool)
			}
			for range 3 {
				step(t, r)
			}
			if n := len(b.Accepted()); n != 2 {
				t.Errorf("%d publishes, want the repeat and no more: 2", n)
			}
		})
	}
}

// Case 28: serialization failures and deadlocks are repeated, counted, and not for
// ever.
func TestSerializationFailuresAreRepeated(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 1)
	for _, tt := range []struct {
		code              string
		fails             int
		retries           int64
		wantErr, wantSent bool
	}{
		{"40001", 100, 4, true, false}, {"42501", 1, 0, true, false}, {"40P01", 3, 3, false, true},
	} {
		left := tt.fails
		db := flaky{Pool: pool, begin: func() error {
			if left--; left >= 0 {
				return &pgconn.PgError{Code: tt.code}
			}
			return nil
		}}
		r := relay(t, db, &shoptest.Bus{}, outbox.Config{})
		res, err := r.Step(t.Context())
		if (err != nil) != tt.wantErr || (res.Sent == 1) != tt.wantSent || r.Counters().ClaimRetries != tt.retries {
			t.Errorf("%s %d times: %+v, %v, %d retries", tt.code, tt.fails, res, err, r.Counters().ClaimRetries)
		}
		if err != nil && res.Next < 200*time.Millisecond {
			t.Errorf("after a database error the next claim comes after %v: a busy loop", res.Next)
		}
	}
}

func TestPausedClaimsNothing(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, schema := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 1)
			r := relay(t, pool, &shoptest.Bus{}, outbox.Config{Queue: q.queue, Gate: pg.Gate(schema)})
			for _, paused := range []bool{true, false} {
				if err := pg.Pause(t.Context(), pool, schema, paused); err != nil {
					t.Fatal(err)
				}
				if res := step(t, r); (res.Sent == 0) != paused {
					t.Errorf("paused %v: %+v", paused, res)
				}
			}
		})
	}
}

// Case 1: a row that commits late, with an id that the claims have passed, is found
// near the cursor at once, and far behind it by the sweep.
func TestLateCommitsAreFound(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	late, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Rollback(context.Background())
	id := "00000000-0000-4000-8000-000000000001"
	if err := outbox.Write(t.Context(), late, "nats", bus.Message{ID: id, Topic: "safe", Payload: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	b := &shoptest.Bus{}
	far := relay(t, pool, b, outbox.Config{Poll: time.Hour, Batch: 2000})
	near, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Rollback(context.Background())
	write(t, pool, "nats", 600)
	behind := bus.Message{ID: "00000000-0000-4000-8000-000000000002", Topic: "safe", Payload: []byte(`{}`)}
	if err := outbox.Write(t.Context(), near, "nats", behind); err != nil {
		t.Fatal(err)
	}
	write(t, pool, "nats", 600)
	if res := step(t, far); res.Sent != 1200 {
		t.Fatalf("%+v, want those that have committed", res)
	}
	if err := near.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := step(t, far); res.Sent != 1 {
		t.Fatalf("%+v, want the row that is 600 ids behind, at once", res)
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := step(t, far); res.Claimed != 0 {
		t.Fatalf("%+v: it is more than 1,000 ids behind and the sweep is an hour away", res)
	}
	swept := relay(t, pool, b, outbox.Config{Poll: time.Nanosecond})
	if res := step(t, swept); res.Sent != 1 {
		t.Errorf("%+v, want the late row by the sweep", res)
	}
}

// Rows far behind the cursor, such as a person's retry of a whole outage: the sweep
// finds them, and the claims after it go on from there at once, batch by batch.
func TestManyOldRowsAreDrainedFromTheSweepOn(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 2500)
	again := func() {
		exec(t, pool, `UPDATE outbox SET status = 'pending', sent_at = NULL WHERE id <= 1200`)
	}
	var failing error
	db := flaky{Pool: pool, begin: func() error { return failing }}
	r := relay(t, db, &shoptest.Bus{}, outbox.Config{Poll: time.Hour, Batch: 500})
	for range 6 {
		step(t, r)
	}
	again()
	if res := step(t, r); res.Claimed != 0 {
		t.Fatalf("%+v: the old rows are found without a sweep", res)
	}
	failing = errNetwork // after an error of the database the next claim is a sweep
	if _, err := r.Step(t.Context()); err == nil {
		t.Fatal("no error")
	}
	failing = nil
	for _, want := range []int{500, 500, 200, 0} {
		if res := step(t, r); res.Sent != want {
			t.Fatalf("%+v, want %d sent", res, want)
		}
	}
	often := relay(t, pool, &shoptest.Bus{}, outbox.Config{Poll: time.Nanosecond, Batch: 3000})
	write(t, pool, "nats", 1)
	step(t, often)
	again()
	await(t, func() bool { return step(t, often).Sent == 1200 }) // by the next sweep, in one batch
}
