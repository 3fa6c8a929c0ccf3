package inbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/pg/pgtest"
)

// TestMain looks for goroutines that nobody waited for. The examples need a database
// and, unlike tests, cannot skip themselves.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("DATABASE_URL") == "" && os.Getenv("CI") != "true" {
		fmt.Println("the examples are skipped: they need DATABASE_URL")
		_ = flag.Set("test.skip", "^Example") // the flag is there: this is a test binary
	}
	goleak.VerifyTestMain(m)
}

const consumer = "mailer"

var errRefused = errors.New("the mail system refuses")

// quick is a policy that no test has to wait for.
func quick() inbox.Config {
	return inbox.Config{FirstDelay: time.Millisecond, MaxDelay: 4 * time.Millisecond, Poll: 5 * time.Millisecond}
}

const sendEmail = `INSERT INTO emails (event_id, recipient, bus) VALUES ($1, 'u1', 'nats')`

func email(ctx context.Context, tx pgx.Tx, m bus.Message) error {
	_, err := tx.Exec(ctx, sendEmail, m.ID)
	return err
}

// fails counts its calls and returns err, until it is mended.
type fails struct {
	calls  atomic.Int64
	err    error
	mended atomic.Bool
}

func (f *fails) effect(ctx context.Context, tx pgx.Tx, m bus.Message) error {
	f.calls.Add(1)
	if err := email(ctx, tx, m); err != nil || f.mended.Load() {
		return err
	}
	return f.err // after the email was written: it has to be rolled back
}

func message() bus.Message {
	return bus.Message{ID: uuid.NewString(), Topic: "safe", Key: "u1", Payload: []byte(`{"user_id":"u1"}`),
		Headers: map[string]string{"trace": "t1"}}
}

func schema(t *testing.T) *pgxpool.Pool {
	pool, _ := pgtest.Schema(t, 6)
	return pool
}

func once(pool inbox.Beginner, effect inbox.Effect) *inbox.Once {
	return &inbox.Once{DB: pool, Consumer: consumer, Bus: "nats", Effect: effect, Config: quick()}
}

func handle(t *testing.T, o *inbox.Once, m bus.Message) {
	t.Helper()
	if err := o.Handle(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// counted compares the number of emails, of rows in processed and of the deliveries
// that those stand for.
func counted(t *testing.T, pool *pgxpool.Pool, emails, processed, deliveries int) {
	t.Helper()
	for _, c := range []struct {
		what, sql string
		want      int
	}{
		{"emails", `SELECT count(*) FROM emails`, emails},
		{"rows in processed", `SELECT count(*) FROM processed`, processed},
		{"deliveries", `SELECT coalesce(sum(deliveries), 0) FROM processed`, deliveries},
	} {
		if n := pgtest.Count(t, pool, c.sql); n != c.want {
			t.Errorf("%d %s, want %d", n, c.what, c.want)
		}
	}
}

// letters lists all dead letters, whatever their state.
func letters(t *testing.T, pool *pgxpool.Pool, f inbox.Filter) []inbox.Letter {
	t.Helper()
	found, err := inbox.Letters(t.Context(), pool, f)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// one returns the only dead letter in a state.
func one(t *testing.T, pool *pgxpool.Pool, status string) inbox.Letter {
	t.Helper()
	found := letters(t, pool, inbox.Filter{Status: status})
	if len(found) != 1 {
		t.Fatalf("%d letters are %s, want 1: %+v", len(found), status, found)
	}
	return found[0]
}

// until polls with a deadline.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// together runs f n times at once and returns what each returned.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errs
}
