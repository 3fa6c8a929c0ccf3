package inbox_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/inbox"
	"outboxplayground/core/pg/pgtest"
)

func TestARepeatIsCountedAndHasNoEffect(t *testing.T) {
	pool := schema(t)
	o, m := once(pool, email), message()
	for range 3 {
		handle(t, o, m)
	}
	counted(t, pool, 1, 1, 3)
	handle(t, o, message())
	counted(t, pool, 2, 2, 4)
}

// The same event has one effect for each consumer.
func TestConsumersDoNotDisturbEachOther(t *testing.T) {
	pool := schema(t)
	m := message()
	other := once(pool, email)
	other.Consumer = "invoices"
	handle(t, once(pool, email), m)
	handle(t, other, m)
	counted(t, pool, 2, 2, 2)
}

// Two consumers get the event in the same moment; each has begun its transaction
// before the other writes. One row, one email, and nobody gets an error.
func TestTheSameEventAtTwoConsumersAtOnce(t *testing.T) {
	pool := schema(t)
	for range 20 {
		m, before := message(), pgtest.Count(t, pool, `SELECT count(*) FROM emails`)
		o := once(gate(pool, 4), email)
		for i, err := range together(4, func(int) error { return o.Handle(t.Context(), m) }) {
			if err != nil {
				t.Fatalf("consumer %d: %v", i, err)
			}
		}
		if n := pgtest.Count(t, pool, `SELECT count(*) FROM emails`) - before; n != 1 {
			t.Fatalf("%d emails for one event, want 1", n)
		}
		if n := pgtest.Count(t, pool, `SELECT deliveries FROM processed WHERE event_id = $1`, m.ID); n != 4 {
			t.Fatalf("the row stands for %d deliveries, want 4", n)
		}
	}
}

// gated lets its transactions go on when n of them have begun.
type gated struct {
	*pgxpool.Pool
	n    atomic.Int64
	open chan struct{}
}

func gate(pool *pgxpool.Pool, n int64) *gated {
	g := &gated{Pool: pool, open: make(chan struct{})}
	g.n.Store(n)
	return g
}

func (g *gated) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := g.Pool.Begin(ctx)
	if g.n.Add(-1) == 0 {
		close(g.open)
	}
	<-g.open
	return tx, err
}

// The first of two holds its transaction open and then fails: the second had to wait
// for it, and does the work.
func TestASecondConsumerWaitsForTheFirstOnesRollback(t *testing.T) {
	pool := schema(t)
	m := message()
	inside, leave := make(chan struct{}), make(chan struct{})
	first := once(pool, func(context.Context, pgx.Tx, bus.Message) error {
		close(inside)
		<-leave
		return errRefused
	})
	first.Config.Attempts = 2 // whose second one must not be made
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- first.Handle(ctx, m) }()
	<-inside
	go func() { done <- once(pool, email).Handle(t.Context(), m) }()
	waiting := func() bool {
		return pgtest.Count(t, pool, `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND application_name = $1`, t.Name()) == 1
	}
	until(t, "the second one waits for a lock", waiting)
	cancel()
	close(leave)
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	counted(t, pool, 1, 1, 1)
}

func TestAnEffectThatRecoversIsTriedAgain(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	o := once(pool, func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
		f.mended.Store(f.calls.Load() == 2)
		return f.effect(ctx, tx, m)
	})
	handle(t, o, message())
	if n := f.calls.Load(); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
	counted(t, pool, 1, 1, 1)
	if l := letters(t, pool, inbox.Filter{}); len(l) != 0 {
		t.Errorf("dead letters: %+v", l)
	}
}

// Between two attempts no transaction is open and no connection is held.
func TestNoTransactionIsOpenBetweenAttempts(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	o := once(pool, f.effect)
	o.Config.FirstDelay, o.Config.MaxDelay = time.Hour, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Handle(ctx, message()) }()
	until(t, "the first attempt is over", func() bool {
		return f.calls.Load() == 1 && pool.Stat().AcquiredConns() == 0
	})
	open := pgtest.Count(t, pool, `SELECT count(*) FROM pg_stat_activity
		WHERE state LIKE 'idle in transaction%' AND application_name = $1`, t.Name())
	if open != 0 {
		t.Errorf("%d transactions are open during the pause", open)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a stop during the pause: %v, want its reason", err)
	}
	counted(t, pool, 0, 0, 0)
}

func TestAPanicIsAFailureAndNotTheEndOfTheProcess(t *testing.T) {
	pool := schema(t)
	handle(t, once(pool, func(context.Context, pgx.Tx, bus.Message) error { panic("index out of range") }), message())
	if l := one(t, pool, inbox.Dead); !strings.Contains(l.Reason, "index out of range") || l.Attempts != 5 {
		t.Errorf("%+v, want five attempts and what the panic said", l)
	}
}

// An effect that hides a failed statement has its transaction rolled back by COMMIT.
func TestAHiddenErrorIsFoundAtCommit(t *testing.T) {
	pool := schema(t)
	handle(t, once(pool, func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
		_, _ = tx.Exec(ctx, `SELECT 1/0`)
		return nil
	}), message())
	if l := one(t, pool, inbox.Dead); l.Attempts != 5 {
		t.Errorf("%+v, want a dead letter after five attempts", l)
	}
	counted(t, pool, 0, 1, 1)
}

// An attempt that takes too long is one that failed.
func TestAnAttemptHasATimeout(t *testing.T) {
	pool := schema(t)
	o := once(pool, func(ctx context.Context, tx pgx.Tx, _ bus.Message) error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep(3600)`)
		return err
	})
	o.Config.Timeout, o.Config.Attempts = 500*time.Millisecond, 2
	m := message()
	// The letter has the same time; where the machine is too slow for it, the message
	// comes again.
	until(t, "the message is given up", func() bool { return o.Handle(t.Context(), m) == nil })
	if l := one(t, pool, inbox.Dead); l.Attempts != 2 {
		t.Errorf("%+v, want two attempts", l)
	}
}

// away is a database that is away for a while.
type away struct {
	*pgxpool.Pool
	refusals atomic.Int64
}

func (a *away) Begin(ctx context.Context) (pgx.Tx, error) {
	if a.refusals.Add(-1) >= 0 {
		return nil, errors.New("dial: connection refused")
	}
	return a.Pool.Begin(ctx)
}

// An outage of the database is not the message's fault: it spends no attempt, and
// the message stays with the broker however often that has to deliver it.
func TestAnOutageOfTheDatabaseSpendsNoAttempt(t *testing.T) {
	pool := schema(t)
	db := &away{Pool: pool}
	db.refusals.Store(30)
	o, m := once(db, email), message()
	for range 30 {
		if err := o.Handle(t.Context(), m); err == nil {
			t.Fatal("acknowledged while the database is away")
		}
	}
	handle(t, o, m)
	counted(t, pool, 1, 1, 1)
}

// The connection breaks under the effect: the same.
func TestABrokenConnectionSpendsNoAttempt(t *testing.T) {
	pool := schema(t)
	f := &fails{}
	f.mended.Store(true)
	o := once(pool, func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
		if f.calls.Load() == 0 {
			f.calls.Add(1)
			_, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`)
			return err
		}
		return f.effect(ctx, tx, m)
	})
	o.Config.Attempts = 1
	m := message()
	if err := o.Handle(t.Context(), m); err == nil {
		t.Fatal("acknowledged without its effect")
	}
	handle(t, o, m)
	counted(t, pool, 1, 1, 1)
	if l := letters(t, pool, inbox.Filter{}); len(l) != 0 {
		t.Errorf("dead letters: %+v", l)
	}
}

// The listener dies after its commit and before its acknowledgement, here as an error
// at the step: what the broker delivers again is absorbed.
func TestDeathBeforeTheAcknowledgementIsAbsorbed(t *testing.T) {
	pool := schema(t)
	for i, at := range []checkpoint.Name{checkpoint.AfterEffect, checkpoint.BeforeAck} {
		o, m := once(pool, email), message()
		o.Steps = checkpoint.Fail(at, m.ID, errRefused)
		if err := o.Handle(t.Context(), m); !errors.Is(err, errRefused) {
			t.Fatalf("%s: %v", at, err)
		}
		handle(t, o, m)
		counted(t, pool, i+1, i+1, 2*(i+1))
	}
	o, m := once(pool, email), message()
	o.Steps = checkpoint.Fail(checkpoint.BeforeEffect, m.ID, errRefused)
	if err := o.Handle(t.Context(), m); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	counted(t, pool, 2, 2, 4)
}
