package outbox

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
)

// An id is drawn at the insert and seen at the commit: the row with the lower one can
// come later. Whoever remembers the highest id seen never comes back for it; the
// status does not forget.
func TestARowThatCommitsLateIsSent(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	late := shoptest.Order("nats")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if err := writeOutbox(t.Context(), tx, late.Bus,
		shop.OrderPlaced(late, Topic)); err != nil {
		t.Fatal(err)
	}
	early := placeOrders(t, pool, 1)[0]
	b := &shoptest.Bus{}
	w := newWorker(pool, b)
	step(t, w, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	overtaken := `SELECT count(*) FROM outbox l JOIN outbox e ON l.id < e.id
		WHERE l.event_id = $1 AND e.event_id = $2`
	if n := pgtest.Count(t, pool, overtaken, late.EventID, early); n != 1 {
		t.Fatal("the late row has the higher id: this test proves nothing")
	}
	step(t, w, 1)
	if sent := b.Accepted(); len(sent) != 2 || sent[0].ID != early ||
		sent[1].ID != late.EventID {
		t.Errorf("sent %v, want the early event and then the late one", sent)
	}
}

// Rows in another worker's claim are passed over, not waited for.
func TestLockedRowsArePassedOver(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	ids := placeOrders(t, pool, 2)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(),
		`SELECT FROM outbox WHERE event_id = $1 FOR UPDATE`, ids[0]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b := &shoptest.Bus{}
	if n, err := newWorker(pool, b).Step(ctx); err != nil || n != 1 ||
		b.Accepted()[0].ID != ids[1] {
		t.Errorf("%d rows, %v; want the one that nobody holds", n, err)
	}
}

// The worker that comes second finds the row marked: it neither sends it back to
// pending nor moves the time at which it was sent.
func TestALateMarkChangesNothing(t *testing.T) {
	for name, failure := range map[string]error{
		"it was sent again":          nil,
		"it could not be sent again": bus.ErrUnavailable,
	} {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, 3)
			id := placeOrders(t, pool, 1)[0]
			first := newWorker(pool,
				&shoptest.Bus{Fail: func(bus.Message) error { return failure }})
			read := func() (row string) {
				sql := `SELECT status || ' ' || attempts || ' ' || sent_at FROM outbox
					WHERE event_id = $1`
				if err := pool.QueryRow(t.Context(), sql, id).Scan(&row); err != nil {
					t.Fatal(err)
				}
				return row
			}
			var marked string
			first.Steps = &checkpoint.Steps{}
			first.Steps.Arm(checkpoint.Plan{At: checkpoint.BeforeMark, EventID: id,
				Do: func(context.Context) error {
					step(t, newWorker(pool, &shoptest.Bus{}), 1)
					marked = read()
					return nil
				}})
			step(t, first, 1)
			if now := read(); now != marked || marked == "" {
				t.Errorf("the row was %q and is %q", marked, now)
			}
		})
	}
}

// A row made pending by hand with its attempts spent stays where it is: giving it
// back means attempts 0 as well.
func TestSpentAttemptsAreNotClaimed(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	placeOrders(t, pool, 1)
	w := newWorker(pool, &shoptest.Bus{})
	const spend = `UPDATE outbox SET status = 'pending', attempts = $1, sent_at = NULL`
	for attempts, want := range map[int]int{5: 0, 4: 1} {
		if _, err := pool.Exec(t.Context(), spend, attempts); err != nil {
			t.Fatal(err)
		}
		step(t, w, want)
	}
}

func TestABatchIsAHundredRows(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	_, err := pool.Exec(t.Context(), `INSERT INTO outbox (event_id, bus, payload)
		SELECT gen_random_uuid(), 'nats', '{}' FROM generate_series(1, 130)`)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(pool, &shoptest.Bus{})
	step(t, w, 100)
	step(t, w, 30)
}

// unreachable is a database that is away. It counts who asks.
type unreachable struct {
	*pgxpool.Pool
	asked atomic.Int32
	up    atomic.Bool
}

func (d *unreachable) Begin(ctx context.Context) (pgx.Tx, error) {
	d.asked.Add(1)
	if d.up.Load() {
		return d.Pool.Begin(ctx)
	}
	return nil, errors.New("connection refused")
}

// The worker polls at once, outlives a database that is away without asking it more
// often than its interval says, and goes on when it is back.
func TestRunOutlivesTheDatabase(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	placeOrders(t, pool, 1)
	db, b := &unreachable{Pool: pool}, &shoptest.Bus{}
	w := newWorker(pool, b)
	w.DB = db
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	begun, ran := time.Now(), make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	poll := func(what string, done func() bool) {
		for !done() {
			select {
			case <-ctx.Done():
				t.Fatalf("no %s", what)
			case err := <-ran:
				t.Fatalf("Run has ended: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	poll("first poll", func() bool { return db.asked.Load() >= 1 })
	poll("third poll", func() bool { return db.asked.Load() >= 3 })
	if took := time.Since(begun); took < 2*pollInterval-50*time.Millisecond {
		t.Errorf("three polls in %v: it does not wait for the next one", took)
	}
	db.up.Store(true)
	poll("event", func() bool { return len(b.Accepted()) == 1 })
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// obedient is a bus that gives up when its context does.
type obedient struct{ shoptest.Bus }

func (b *obedient) Publish(ctx context.Context, msgs ...bus.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, limited := ctx.Deadline(); !limited {
		return errors.New("a publish without a deadline")
	}
	return b.Bus.Publish(ctx, msgs...)
}

// Told to stop just before a publish, the worker publishes all the same: broken off,
// it may have arrived, and would cost the row an attempt.
func TestAStopDoesNotCutAPublishShort(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	placeOrders(t, pool, 1)
	ctx, stop := context.WithCancel(t.Context())
	w := newWorker(pool, &obedient{})
	w.Steps = &checkpoint.Steps{}
	w.Steps.Arm(checkpoint.Plan{At: checkpoint.BeforePublish,
		Do: func(context.Context) error { stop(); return nil }})
	if _, err := w.Step(ctx); err != nil {
		t.Fatal(err)
	}
	if n := withStatus(t, pool, "sent", 0); n != 1 {
		t.Errorf("%d rows sent, want 1", n)
	}
}

// A claim that found nothing is a step as well: the lab waits for it.
func TestAnEmptyClaimIsReported(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	var seen []checkpoint.Name
	w := newWorker(pool, &shoptest.Bus{})
	w.Steps = &checkpoint.Steps{Observe: func(at checkpoint.Name, _ string) {
		seen = append(seen, at)
	}}
	step(t, w, 0)
	if len(seen) != 1 || seen[0] != checkpoint.Claimed {
		t.Errorf("reported %v, want one claim", seen)
	}
}
