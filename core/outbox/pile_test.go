package outbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// slow is a queue whose settlements wait until they are let go, and that notes how many
// rows each one marks as sent.
type slow struct {
	outbox.Queue
	goOn chan struct{}
	mu   sync.Mutex
	rows []int
}

func (s *slow) Settle(ctx context.Context, db outbox.DB, m outbox.Settlement) (int, error) {
	s.mu.Lock()
	s.rows = append(s.rows, len(m.Sent))
	s.mu.Unlock()
	select {
	case <-s.goOn:
		return s.Queue.Settle(ctx, db, m)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// While a settlement is under way the relay goes on, as far as five more claims; what has
// piled up is written down together.
func TestWhatPilesUpIsSettledTogether(t *testing.T) {
	for name, q := range queues() {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, q.chapter)
			write(t, pool, "nats", 80)
			b, queue := &batches{}, &slow{Queue: q.queue, goOn: make(chan struct{})}
			stop := running(t, relay(t, pool, b, outbox.Config{Batch: 10, Queue: queue}))
			await(t, func() bool { return len(b.published()) == 6 })
			close(queue.goOn)
			await(t, func() bool { return pending(t, pool) == 0 })
			stop()
			if len(queue.rows) < 2 || queue.rows[0] != 10 || queue.rows[1] != 50 {
				t.Errorf("settlements of %v rows, want 10, 50 and the rest", queue.rows)
			}
			if n := duplicates(b.Accepted()); n != 0 || len(b.Accepted()) != 80 {
				t.Errorf("%d published, %d of them twice; want 80 and 0", len(b.Accepted()), n)
			}
		})
	}
}

// running runs a relay until the returned function is called, which waits for its end.
func running(t *testing.T, r *outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = r.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(stop)
	return stop
}

// Claims that piled up with a refused row in each are settled one by one. All of them
// together have no more time after a stop than one has.
func TestStopEndsWhileSettlementsHang(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	ids := write(t, pool, "nats", 60)
	b := &batches{Bus: shoptest.Bus{Fail: func(m bus.Message) error {
		for i := 0; i < len(ids); i += 10 {
			if m.ID == ids[i] {
				return bus.ErrRejected
			}
		}
		return nil
	}}}
	r := relay(t, pool, b, outbox.Config{Batch: 10, Queue: &slow{Queue: outbox.Leased{}, goOn: make(chan struct{})}})
	stop := running(t, r)
	await(t, func() bool { return len(b.published()) == 6 })
	at := time.Now()
	stop()
	if took := time.Since(at); took > 10*time.Second {
		t.Errorf("Run took %v to end", took)
	}
}

// A step that fails leaves its own event unmarked, or is reached when the mark is there;
// the other events of the same settlement are marked and counted all the same.
func TestAStepFailsInAPile(t *testing.T) {
	for at, marked := range map[checkpoint.Name]int{checkpoint.BeforeMark: 59, checkpoint.AfterMark: 60} {
		t.Run(string(at), func(t *testing.T) {
			pool, _ := pgtest.Schema(t, 5)
			ids := write(t, pool, "nats", 60)
			steps := &checkpoint.Steps{}
			steps.Arm(checkpoint.Plan{At: at, EventID: ids[11], Do: func(context.Context) error { return errors.New("on purpose") }})
			b, queue := &shoptest.Bus{}, &slow{Queue: outbox.Leased{}, goOn: make(chan struct{})}
			r := relay(t, pool, b, outbox.Config{Batch: 10, Queue: queue, Steps: steps})
			stop := running(t, r)
			await(t, func() bool { return len(b.Accepted()) == 60 })
			close(queue.goOn)
			stop()
			if n := 60 - pending(t, pool); n != marked || r.Counters().Sent != int64(n) {
				t.Errorf("%d marked and %d counted, want %d", n, r.Counters().Sent, marked)
			}
		})
	}
}
