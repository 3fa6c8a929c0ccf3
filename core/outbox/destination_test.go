package outbox_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// A driver says "unavailable" of a full stream or of a partition without a leader as
// well as of a broker that is down. Rows for other destinations do not wait for it.
func TestOneDestinationAwayDelaysNoOther(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 25) // whole batches of them
			exec(t, pool, `UPDATE outbox SET topic = 'full'`)
			write(t, pool, "nats", 100)
			var back atomic.Bool
			b := &shoptest.Bus{Fail: func(m bus.Message) error {
				if m.Topic == "full" && !back.Load() {
					return bus.ErrUnavailable
				}
				return nil
			}}
			r := relay(t, pool, b, outbox.Config{Queue: q.queue, Batch: 10, Poll: 20 * time.Millisecond,
				Probe:  outbox.Backoff{Base: time.Millisecond, Max: 4 * time.Millisecond},
				Policy: outbox.Patient{Backoff: outbox.Backoff{Base: 50 * time.Millisecond}}})
			run(t, func() bool {
				await(t, func() bool { return len(b.Accepted()) == 100 })
				if n := with(t, pool, "pending", 0); n < 25 {
					t.Errorf("%d rows pending without an attempt, want the 25 that could not go", n)
				}
				back.Store(true)
				await(t, func() bool { return pending(t, pool) == 0 })
				return true
			}, r)
			if n := duplicates(b.Accepted()); n != 0 || len(b.Accepted()) != 125 {
				t.Errorf("%d published, %d twice; want 125 and 0", len(b.Accepted()), n)
			}
		})
	}
}

// In an outage of the whole broker nothing is delayed beyond it, and the oldest row is
// asked for again and again.
func TestProbesGoRoundFromTheOldest(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	ids := write(t, pool, "nats", 3)
	var asked []string
	down := true
	b := &shoptest.Bus{Fail: func(m bus.Message) error {
		if !down {
			return nil
		}
		asked = append(asked, m.ID)
		return bus.ErrUnavailable
	}}
	r := relay(t, pool, b, outbox.Config{})
	for len(asked) < 3+5 {
		step(t, r)
	}
	want := []string{ids[0], ids[1], ids[2], ids[0], ids[1], ids[2], ids[0], ids[1]}
	if got := strings.Join(asked, " "); got != strings.Join(want, " ") {
		t.Errorf("asked for %s, want %s", got, want)
	}
	down = false
	if res := step(t, r); res.Sent != 1 {
		t.Errorf("%+v, want the probe sent", res)
	}
	if res := step(t, r); res.Sent != 2 {
		t.Errorf("%+v, want the others at once: an outage delays none of them", res)
	}
}

// tiring is a queue whose claims from the beginning take too long.
type tiring struct {
	outbox.Queue
	sweeps atomic.Int64
	tired  atomic.Bool
}

func (q *tiring) Claim(ctx context.Context, tx pgx.Tx, w outbox.Want) ([]outbox.Entry, error) {
	if w.After == 0 && q.tired.Load() {
		q.sweeps.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return q.Queue.Claim(ctx, tx, w)
}

// A sweep that cannot be finished, over millions of dead entries, is not the next thing
// to do: the claims near the cursor go on.
func TestASweepThatTakesTooLongStopsNobody(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	exec(t, pool, `SELECT setval('outbox_id_seq', 100000)`)
	q, b := &tiring{Queue: outbox.Leased{}}, &shoptest.Bus{}
	r := relay(t, pool, b, outbox.Config{Queue: q, Poll: 20 * time.Millisecond})
	write(t, pool, "nats", 1)
	run(t, func() bool {
		await(t, func() bool { return pending(t, pool) == 0 })
		q.tired.Store(true)
		await(t, func() bool { return q.sweeps.Load() == 1 })
		write(t, pool, "nats", 50)
		await(t, func() bool { return len(b.Accepted()) == 51 })
		return true
	}, r)
	if n := q.sweeps.Load(); n != 1 {
		t.Errorf("%d sweeps, want one", n)
	}
}

func TestABackoffThatCannotBeMeant(t *testing.T) {
	pool, _ := pgtest.Schema(t, 7)
	dialing := func(context.Context) (*pgx.Conn, error) { return nil, errors.New("nobody dials") }
	for what, b := range map[string]outbox.Backoff{
		"no base":   {Max: time.Second},
		"negative":  {Base: -time.Second},
		"jitter":    {Base: time.Second, Jitter: 7},
		"no jitter": {Base: time.Second, Jitter: math.NaN()},
	} {
		if _, err := outbox.NewRelay(pool, &shoptest.Bus{}, "nats", outbox.Config{Probe: b}); err == nil {
			t.Errorf("%s: a relay probes by it", what)
		}
		if _, err := outbox.NewRelay(pool, &shoptest.Bus{}, "nats", outbox.Config{Policy: outbox.Patient{Backoff: b}}); err == nil {
			t.Errorf("%s: a row waits by it", what)
		}
		if _, err := outbox.NewWaker(outbox.WakerConfig{Connect: dialing, DB: pool, Channel: "x", Retry: b}); err == nil {
			t.Errorf("%s: a waker connects by it", what)
		}
	}
	far := outbox.Backoff{Base: time.Second, Max: math.MaxInt64, Jitter: 0.2}
	for n := range 200 {
		if d := far.Delay(n); d < time.Second/2 {
			t.Fatalf("Delay(%d) = %v", n, d)
		}
	}
}

// PostgreSQL cuts a channel and the name of a session at 63 bytes, and the waker would
// not hear, or not be counted.
func TestAWakerWhoseNameDoesNotFit(t *testing.T) {
	pool, _ := pgtest.Schema(t, 7)
	dialing := func(context.Context) (*pgx.Conn, error) { return nil, errors.New("nobody dials") }
	for channel, fits := range map[string]bool{
		outbox.Channel(strings.Repeat("s", 45)): true, outbox.Channel(strings.Repeat("s", 46)): false, outbox.Channel("訂單"): false,
	} {
		_, err := outbox.NewWaker(outbox.WakerConfig{Connect: dialing, DB: pool, Channel: channel, Name: "nats"})
		if (err == nil) != fits {
			t.Errorf("%s: %v", channel, err)
		}
	}
}
