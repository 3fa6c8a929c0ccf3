package inbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/brokers"
	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/infra/servers/servertest"
)

// onEveryBus runs a test against each of the five.
func onEveryBus(t *testing.T, test func(t *testing.T, l *line)) {
	for _, name := range brokers.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newLine(t, name))
		})
	}
}

// line is a topic on a real bus, with tables of its own.
type line struct {
	t    *testing.T
	name string
	bus  bus.Bus
	pool *pgxpool.Pool
}

func newLine(t *testing.T, name string) *line {
	var c brokers.Config
	if name != brokers.InMemory {
		c.URL = servertest.URL(t, name)
	}
	l := &line{t: t, name: name}
	l.pool = schema(t)
	c.Prefix = "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	b, err := brokers.Open(t.Context(), name, c)
	if err != nil {
		t.Fatal(err)
	}
	l.bus = b
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.(bus.Topology).Prepare(ctx, "safe", consumer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := errors.Join(b.(bus.Topology).Remove(ctx, "safe", consumer), b.Close()); err != nil {
			t.Errorf("the test's topic stays behind: %v", err)
		}
	})
	return l
}

// publish sends messages, and insists: the brokers are shared with other tests.
func (l *line) publish(msgs ...bus.Message) {
	l.t.Helper()
	until(l.t, "the messages are published", func() bool {
		ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
		defer cancel()
		return l.bus.Publish(ctx, msgs...) == nil
	})
}

// consume subscribes n members until the test ends.
func (l *line) consume(n int, h bus.Handler) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := l.bus.Subscribe(ctx, "safe", consumer, h); err != nil {
				l.t.Errorf("subscribe: %v", err)
			}
		})
	}
	l.t.Cleanup(func() { cancel(); all.Wait() })
}

// settled waits until the group has nothing left: every message is acknowledged.
func (l *line) settled() {
	l.t.Helper()
	until(l.t, "the bus holds nothing", func() bool {
		ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
		defer cancel()
		n, err := l.bus.(bus.Backlogger).Backlog(ctx, "safe", consumer)
		return err == nil && n == 0
	})
}

func (l *line) count(sql string) int { return pgtest.Count(l.t, l.pool, sql) }

// The fifth of ten messages can never be handled. It is kept with its reason, the
// others are handled, and the broker is left with nothing: no offset was committed
// past a message that is nowhere, and nothing is delivered for ever.
func TestAPoisonMessageOnEveryBus(t *testing.T) {
	onEveryBus(t, func(t *testing.T, l *line) {
		msgs := make([]bus.Message, 10)
		for i := range msgs {
			msgs[i] = message()
		}
		o := once(l.pool, func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
			if m.ID == msgs[4].ID {
				return errRefused
			}
			return email(ctx, tx, m)
		})
		o.Bus, o.Config.Attempts = l.name, 25 // more than a quorum queue's 20 returns
		l.publish(msgs...)
		l.consume(1, o.Handle)
		until(t, "nine emails and a dead letter", func() bool {
			return l.count(`SELECT count(*) FROM emails`) == 9 && l.count(`SELECT count(*) FROM dead_letters`) == 1
		})
		l.settled()
		counted(t, l.pool, 9, 10, l.count(`SELECT sum(deliveries) FROM processed`))
		if d := one(t, l.pool, inbox.Dead); *d.EventID != msgs[4].ID || d.Attempts != 25 || d.Bus != l.name ||
			string(d.Payload) != string(msgs[4].Payload) || d.Headers["trace"] != "t1" || d.Topic != "safe" || d.Key != "u1" {
			t.Errorf("%+v", d)
		}
	})
}

// A broker delivers what was committed and not acknowledged again: absorbed, counted,
// acknowledged, and not returned for ever because of a unique key.
func TestARedeliveryIsAbsorbedOnEveryBus(t *testing.T) {
	onEveryBus(t, func(t *testing.T, l *line) {
		m := message()
		o := once(l.pool, email)
		o.Bus = l.name
		var mu sync.Mutex
		deaths := 0
		l.publish(m)
		l.consume(2, func(ctx context.Context, m bus.Message) error {
			err := o.Handle(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			if deaths++; err == nil && deaths <= 3 {
				return errors.New("died before the acknowledgement")
			}
			return err
		})
		until(t, "four deliveries are counted", func() bool {
			return l.count(`SELECT coalesce(sum(deliveries), 0) FROM processed`) >= 4
		})
		l.settled()
		if n := l.count(`SELECT count(*) FROM emails`); n != 1 {
			t.Errorf("%d emails for one event, want 1", n)
		}
	})
}

// The database is away for longer than a broker forgives by default: 21 returns. The
// message is handled when it is back.
func TestAnOutageOfTheDatabaseOnEveryBus(t *testing.T) {
	onEveryBus(t, func(t *testing.T, l *line) {
		db := &away{Pool: l.pool}
		db.refusals.Store(21)
		o := once(db, email)
		o.Bus = l.name
		l.publish(message())
		l.consume(1, o.Handle)
		until(t, "the email is sent", func() bool { return l.count(`SELECT count(*) FROM emails`) == 1 })
		l.settled()
		if n := l.count(`SELECT count(*) FROM dead_letters`); n != 0 {
			t.Errorf("%d dead letters: the message was not to blame", n)
		}
	})
}

// The delays take longer than every broker's patience: NATS' AckWait and Redis'
// XAUTOCLAIM of 5 s, Kafka's session of 6 s. Nobody else gets the message meanwhile:
// all attempts are made in one delivery. A machine that stands still for as long can
// make a broker believe in a death, so there are three tries; a broker that is not
// kept out of the way fails each.
func TestLongDelaysOnEveryBus(t *testing.T) {
	onEveryBus(t, func(t *testing.T, l *line) {
		var deliveries, attempts atomic.Int64
		o := once(l.pool, func(context.Context, pgx.Tx, bus.Message) error {
			attempts.Add(1)
			return errRefused
		})
		o.Bus, o.Config = l.name, inbox.Config{Attempts: 3, FirstDelay: 4 * time.Second, MaxDelay: 4 * time.Second}
		// One member: a second one that joins would have Kafka share out anew.
		l.consume(1, func(ctx context.Context, m bus.Message) error {
			deliveries.Add(1)
			return o.Handle(ctx, m)
		})
		for try := 1; ; try++ {
			deliveries.Store(0)
			attempts.Store(0)
			l.publish(message())
			until(t, "the message is given up", func() bool { return l.count(`SELECT count(*) FROM dead_letters`) == try })
			l.settled()
			if attempts.Load() == 3 && deliveries.Load() == 1 {
				break
			}
			if t.Logf("%d attempts in %d deliveries, want 3 in 1", attempts.Load(), deliveries.Load()); try == 3 {
				t.Fatal("the broker did not wait, three times")
			}
		}
		counted(t, l.pool, 0, l.count(`SELECT count(*) FROM dead_letters`), l.count(`SELECT sum(deliveries) FROM processed`))
	})
}
