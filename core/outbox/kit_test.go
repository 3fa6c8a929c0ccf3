package outbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// TestMain looks for goroutines that nobody waited for. The examples need a
// database and, unlike tests, cannot skip themselves.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("DATABASE_URL") == "" && os.Getenv("CI") != "true" {
		fmt.Println("the examples are skipped: they need DATABASE_URL")
		flag.Set("test.skip", "^Example")
	}
	goleak.VerifyTestMain(m)
}

var errNetwork = errors.New("connection reset by peer")

// sized is how large a test is: as its report has it in ./infra/test full, where the
// size is the point, and otherwise small enough to be run all the time.
func sized[T any](small, full T) T {
	if os.Getenv("OUTBOX_PLAYGROUND_TEST") == "full" {
		return full
	}
	return small
}

// patience bounds what a test waits for; nothing is measured with it.
const patience = 30 * time.Second

// batches is a double: shoptest.Bus that also remembers the size of every publish.
type batches struct {
	shoptest.Bus
	mu    sync.Mutex
	sizes []int
}

func (b *batches) Publish(ctx context.Context, msgs ...bus.Message) error {
	b.mu.Lock()
	b.sizes = append(b.sizes, len(msgs))
	b.mu.Unlock()
	return b.Bus.Publish(ctx, msgs...)
}

func (b *batches) published() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]int(nil), b.sizes...)
}

// write commits n events for a bus and returns their ids in order.
func write(t testing.TB, pool *pgxpool.Pool, busName string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for i := range ids {
			ids[i] = uuid.NewString()
			m := bus.Message{ID: ids[i], Topic: "safe", Key: "u1", Payload: []byte(`{"n": 1}`)}
			if err := outbox.Write(t.Context(), tx, busName, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func relay(t testing.TB, db outbox.DB, b bus.Bus, cfg outbox.Config) *outbox.Relay {
	t.Helper()
	r, err := outbox.NewRelay(db, b, "nats", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func step(t testing.TB, r *outbox.Relay) outbox.Result {
	t.Helper()
	res, err := r.Step(t.Context())
	if err != nil {
		t.Fatalf("Step: %v (%+v)", err, res)
	}
	return res
}

// run runs relays until the test has what it wants, and waits for all of them.
func run(t testing.TB, until func() bool, relays ...*outbox.Relay) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, r := range relays {
		all.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	await(t, until)
	stop()
	all.Wait()
}

// await polls for something that has to come about.
func await(t testing.TB, until func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !until(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("it never came about")
			return
		}
	}
}

func with(t testing.TB, pool *pgxpool.Pool, status string, attempts int) int {
	t.Helper()
	return pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE status = $1 AND attempts = $2`, status, attempts)
}

func pending(t testing.TB, pool *pgxpool.Pool) int {
	t.Helper()
	return pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE status = 'pending'`)
}

// duplicates counts deliveries beyond the first of each event.
func duplicates(msgs []bus.Message) (n int) {
	seen := map[string]bool{}
	for _, m := range msgs {
		if seen[m.ID] {
			n++
		}
		seen[m.ID] = true
	}
	return n
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// flaky is a double of a database that fails as it is told; nil is success.
type flaky struct {
	*pgxpool.Pool
	begin, exec func() error
}

func (f flaky) Begin(ctx context.Context) (pgx.Tx, error) {
	return f.BeginTx(ctx, pgx.TxOptions{})
}

func (f flaky) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	if f.begin != nil {
		if err := f.begin(); err != nil {
			return nil, err
		}
	}
	return f.Pool.BeginTx(ctx, o)
}

func (f flaky) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if f.exec != nil {
		if err := f.exec(); err != nil {
			return pgconn.CommandTag{}, err
		}
	}
	return f.Pool.Exec(ctx, sql, args...)
}

func always(err error) func(bus.Message) error { return func(bus.Message) error { return err } }

// due makes every waiting row due now, in place of waiting.
func due(t testing.TB, pool *pgxpool.Pool) {
	exec(t, pool, `UPDATE outbox SET next_attempt_at = now() - interval '1 second'`)
}

// inClaims counts the rows that some claim has in hand.
const inClaims = `SELECT count(*) FROM outbox o WHERE status = 'pending'
	AND EXISTS (SELECT FROM outbox_claims c WHERE c.bus = o.bus AND o.id BETWEEN c.first_id AND c.last_id)`

// expire ends every lease, in place of waiting.
func expire(t testing.TB, pool *pgxpool.Pool) {
	exec(t, pool, `UPDATE outbox_claims SET lease_until = now() - interval '1 second'`)
}

// queues are the two there are, with the chapter whose table they need.
func queues() map[string]struct {
	queue   outbox.Queue
	chapter int
} {
	return map[string]struct {
		queue   outbox.Queue
		chapter int
	}{"plain": {outbox.Plain{}, 4}, "leased": {outbox.Leased{}, 5}}
}
