package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// stuck is a double whose publish hangs until it is let go, or its time is up.
type stuck struct {
	shoptest.Bus
	entered chan struct{}
	let     chan struct{}
}

func newStuck() *stuck { return &stuck{entered: make(chan struct{}, 100), let: make(chan struct{})} }

func (b *stuck) Publish(ctx context.Context, msgs ...bus.Message) error {
	b.entered <- struct{}{}
	select {
	case <-b.let:
		return b.Bus.Publish(ctx, msgs...)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestRunDrainsInFullBatchesWithoutWaiting(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			ids := write(t, pool, "nats", 1000)
			b := &batches{}
			// With an hour between polls, all of it has to come from "at once again".
			r := relay(t, pool, b, outbox.Config{Queue: q.queue, Batch: 50, Poll: time.Hour})
			run(t, func() bool { return pending(t, pool) == 0 }, r)
			got := b.Accepted()
			if len(got) != len(ids) {
				t.Fatalf("%d messages, want %d", len(got), len(ids))
			}
			for i, m := range got {
				if m.ID != ids[i] {
					t.Fatalf("message %d is out of order", i)
				}
			}
			if c := r.Counters(); c.Sent != 1000 || c.Claimed != 1000 || c.Claims != 20 || c.Conflicts != 0 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

// The next batch is claimed while this one is with the broker.
func TestRunClaimsAhead(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 20)
	b := newStuck()
	r := relay(t, pool, b, outbox.Config{Batch: 10})
	run(t, func() bool {
		<-b.entered
		await(t, func() bool {
			return pgtest.Count(t, pool, inClaims) == 20
		})
		close(b.let)
		return true
	}, r)
	if n := pending(t, pool); n+len(b.Accepted()) != 20 {
		t.Errorf("%d pending and %d sent, want 20 in all", n, len(b.Accepted()))
	}
}

func TestWakeCutsTheWaitShort(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	b := &shoptest.Bus{}
	idle := make(chan struct{}, 100)
	steps := &checkpoint.Steps{Observe: func(_ checkpoint.Name, id string) {
		if id == "" {
			idle <- struct{}{}
		}
	}}
	r := relay(t, pool, b, outbox.Config{Poll: time.Hour, Steps: steps})
	run(t, func() bool {
		<-idle
		for n := range 5 {
			write(t, pool, "nats", 1)
			r.Wake()
			r.Wake() // as good as one
			await(t, func() bool { return len(b.Accepted()) == n+1 })
		}
		return true
	}, r)
}

// Wakes come with every order. While the broker is away they must not make the lane
// probe faster. Another lane, which is woken with it, says how much time has passed.
func TestWakesDoNotHurryAProbe(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 1)
	away := &batches{Bus: shoptest.Bus{Fail: always(bus.ErrUnavailable)}}
	probing := relay(t, pool, away, outbox.Config{Probe: outbox.Backoff{Base: time.Hour}})
	works := &shoptest.Bus{}
	clock, err := outbox.NewRelay(pool, works, "kafka", outbox.Config{Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	run(t, func() bool {
		await(t, func() bool { return probing.Counters().Deferred == 1 })
		for n := range 10 {
			write(t, pool, "kafka", 1)
			probing.Wake()
			clock.Wake()
			await(t, func() bool { return len(works.Accepted()) == n+1 })
		}
		return true
	}, probing, clock)
	if n := len(away.published()); n != 1 {
		t.Errorf("%d publishes within an hour's back-off", n)
	}
}

// Case 31: an outage, then everything is sent; nothing spent an attempt or was
// given up, and what had been claimed ahead is not forgotten.
func TestRunComesBackAfterAnOutage(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 300)
			var mu sync.Mutex
			var down error
			b := &batches{Bus: shoptest.Bus{Fail: func(bus.Message) error { mu.Lock(); defer mu.Unlock(); return down }}}
			set := func(err error) { mu.Lock(); defer mu.Unlock(); down = err }
			set(bus.ErrUnavailable)
			r := relay(t, pool, b, outbox.Config{Queue: q.queue, Batch: 20, Poll: 20e6, Probe: outbox.Backoff{Base: 5e6, Max: 20e6}})
			run(t, func() bool {
				await(t, func() bool { return len(b.published()) > 12 })
				set(nil)
				await(t, func() bool { return pending(t, pool) == 0 })
				return true
			}, r)
			if n := with(t, pool, "sent", 0); n != 300 || duplicates(b.Accepted()) != 0 {
				t.Errorf("%d sent without an attempt, %d repeats, want 300 and none", n, duplicates(b.Accepted()))
			}
			sizes := b.published()
			if sizes[0] != 20 || slices.Max(sizes[1:12]) != 1 {
				t.Errorf("publishes of %v during the outage, want 20 and then one at a time", sizes[:12])
			}
			if slices.Max(sizes[12:]) != 20 {
				t.Errorf("publishes of %v afterwards, want full batches", sizes[12:])
			}
		})
	}
}

// Case 26: while the broker stalls, for 30 s (otherwise 2.5 s), no transaction is open,
// and orders are taken.
func TestNoTransactionStaysOpenWhileTheBrokerStalls(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 20)
			b := newStuck()
			run(t, func() bool {
				<-b.entered
				const open = `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
					AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '1 second'`
				deadline := time.Now().Add(sized(2500*time.Millisecond, 30*time.Second))
				for time.Now().Before(deadline) {
					if n := pgtest.Count(t, pool, open, t.Name()); n != 0 {
						t.Fatalf("%d transactions are open while the broker stalls", n)
					}
					write(t, pool, "nats", 1)
					time.Sleep(100 * time.Millisecond)
				}
				close(b.let)
				await(t, func() bool { return pending(t, pool) == 0 })
				return true
			}, relay(t, pool, b, outbox.Config{Queue: q.queue, Batch: 10, Poll: 50e6}))
		})
	}
}

// Case 27: one bus hangs; the rows of another are sent.
func TestOneBusHangsTheOtherGoesOn(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 150)
	write(t, pool, "kafka", 150)
	hangs, works := newStuck(), &shoptest.Bus{}
	kafka, err := outbox.NewRelay(pool, works, "kafka", outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, func() bool {
		<-hangs.entered
		await(t, func() bool { return len(works.Accepted()) == 150 })
		if n := len(hangs.Accepted()); n != 0 {
			t.Errorf("the bus that hangs has accepted %d", n)
		}
		close(hangs.let)
		return true
	}, relay(t, pool, hangs, outbox.Config{}), kafka)
}

// Case 64: told to stop in the middle, a worker finishes what it has published and
// gives back what it has not: nothing is leased any more, nothing is lost.
func TestStopFinishesOrGivesBack(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 50)
	b := newStuck()
	r := relay(t, pool, b, outbox.Config{Batch: 10})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	<-b.entered
	await(t, func() bool {
		return pgtest.Count(t, pool, inClaims) == 20
	})
	stop()
	close(b.let)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if sent := with(t, pool, "sent", 0); sent != 10 || pending(t, pool) != 40 {
		t.Errorf("%d sent, %d pending, want the batch in hand finished: 10 and 40", sent, pending(t, pool))
	}
	if n := pgtest.Count(t, pool, inClaims); n != 0 {
		t.Errorf("%d rows are still leased to a worker that has stopped", n)
	}
	if c := r.Counters(); c.Released != 10 {
		t.Errorf("%+v, want the 10 claimed ahead given back", c)
	}
}

// A publish whose broker never answers ends by its own deadline, also at a stop.
func TestStopEndsWhileTheBrokerHangs(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 1)
	b := newStuck()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	r := relay(t, pool, b, outbox.Config{PublishTimeout: 200e6})
	go func() { done <- r.Run(ctx) }()
	<-b.entered
	stop()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Run does not end")
	}
	if n := with(t, pool, "pending", 1); n != 1 {
		t.Errorf("%d rows pending after one attempt, want 1: nobody knows whether it arrived", n)
	}
}

// What the broker said is worth keeping: the mark is tried again until the database
// is back, so its outage makes no repeats.
func TestMarksOutliveAnOutageOfTheDatabase(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 30)
			var mu sync.Mutex
			fails := 6
			gone := func() error {
				mu.Lock()
				defer mu.Unlock()
				if fails--; fails >= 0 {
					return errNetwork
				}
				return nil
			}
			b := &batches{}
			db := flaky{Pool: pool, exec: gone}
			r := relay(t, db, b, outbox.Config{Queue: q.queue, Batch: 10, Poll: 20e6, Probe: outbox.Backoff{Base: 1e6}})
			run(t, func() bool { return pending(t, pool) == 0 }, r)
			if n := len(b.Accepted()); n != 30 {
				t.Errorf("%d messages, want 30 and no repeat", n)
			}
			if c := r.Counters(); c.DBErrors != 6 {
				t.Errorf("%d database errors counted, want 6", c.DBErrors)
			}
		})
	}
}

// Case 58: while the database is away claims are few.
func TestDatabaseAwayIsNoBusyLoop(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 1)
	var mu sync.Mutex
	tried, down := 0, true
	db := flaky{Pool: pool, begin: func() error {
		mu.Lock()
		defer mu.Unlock()
		if tried++; down {
			return errNetwork
		}
		return nil
	}}
	b := &shoptest.Bus{}
	r := relay(t, db, b, outbox.Config{})
	run(t, func() bool {
		await(t, func() bool { return r.Counters().DBErrors >= 3 })
		mu.Lock()
		if tried > 4 {
			t.Errorf("%d claims in less than a second", tried)
		}
		down = false
		mu.Unlock()
		await(t, func() bool { return len(b.Accepted()) == 1 })
		return true
	}, r)
}

// A run in memory of all that can happen to a row, with three workers and a broker
// and a database that fail at random: nothing is lost, nothing stays behind.
func TestNothingIsLostWhateverFails(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	ids := write(t, pool, "nats", 400)
	var mu sync.Mutex
	n := 0
	every := func(k int, err error) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%k == 0 {
			return err
		}
		return nil
	}
	b := &shoptest.Bus{Fail: func(bus.Message) error {
		return errors.Join(every(31, bus.ErrUnavailable), every(57, errNetwork))
	}}
	db := flaky{Pool: pool, begin: func() error { return every(11, errNetwork) }, exec: func() error { return every(13, errNetwork) }}
	cfg := outbox.Config{Queue: outbox.Leased{For: time.Second}, Policy: outbox.Patient{MaxAttempts: 1000, Backoff: outbox.Backoff{Base: 1e6}},
		Batch: 20, Poll: 10e6, Probe: outbox.Backoff{Base: 1e6, Max: 5e6}}
	run(t, func() bool { return pending(t, pool) == 0 }, relay(t, db, b, cfg), relay(t, db, b, cfg), relay(t, db, b, cfg))
	got := map[string]bool{}
	for _, m := range b.Accepted() {
		got[m.ID] = true
	}
	if len(got) != len(ids) {
		t.Errorf("%d of %d events arrived", len(got), len(ids))
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox`); n != len(ids) {
		t.Errorf("%d rows in the table, want %d", n, len(ids))
	}
}

func TestLongErrorsFitTheirColumn(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	write(t, pool, "nats", 1)
	long := errors.New("a\x00b\xff" + strings.Repeat("雨", 600))
	step(t, relay(t, pool, &shoptest.Bus{Fail: always(long)}, outbox.Config{}))
	const fits = `SELECT count(*) FROM outbox WHERE length(last_error) = 500 AND last_error LIKE 'ab?雨%'`
	if n := pgtest.Count(t, pool, fits); n != 1 {
		t.Error("the error is not in its column, cut and cleaned")
	}
}
