package idempotent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/inbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
)

var errBusiness = errors.New("simulated business failure")

func TestPlaceOrderKeepsBothRowsOrNeither(t *testing.T) {
	pool, _ := pgtest.Schema(t, 6)
	both := `SELECT (SELECT count(*) FROM orders WHERE event_id = $1) * 10 +
		(SELECT count(*) FROM outbox WHERE event_id = $1)`
	order := shoptest.Order("redis")
	if err := (&Outbox{DB: pool}).PlaceOrder(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Count(t, pool, both, order.EventID); n != 11 {
		t.Errorf("committed: orders and outbox rows are %d, want 1 and 1", n)
	}
	refused := shoptest.Order("redis")
	steps := checkpoint.Fail(checkpoint.BeforeCommit, refused.EventID, errBusiness)
	if err := (&Outbox{DB: pool, Steps: steps}).PlaceOrder(t.Context(),
		refused); !errors.Is(err, errBusiness) {
		t.Errorf("PlaceOrder answered %v, want the business failure", err)
	}
	if n := pgtest.Count(t, pool, both, refused.EventID); n != 0 {
		t.Errorf("rolled back: orders and outbox rows are %d, want none", n)
	}
}

// quickly is the chapter's listener without its pauses.
func quickly(pool *pgxpool.Pool) *inbox.Once {
	o := listener(pool, "redis")
	o.Config = inbox.Config{FirstDelay: time.Millisecond, MaxDelay: time.Millisecond}
	return o
}

func placed(user string) bus.Message {
	return shop.OrderPlaced(shop.Order{EventID: uuid.NewString(), UserID: user,
		Items: []string{"A"}, Bus: "redis"}, Topic)
}

func handle(t *testing.T, o *inbox.Once, m bus.Message) {
	t.Helper()
	if err := o.Handle(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// wants compares the number of emails, and the row in processed.
func wants(t *testing.T, pool *pgxpool.Pool, m bus.Message, emails, deliveries int) {
	t.Helper()
	n := pgtest.Count(t, pool, `SELECT count(*) FROM emails WHERE event_id = $1`, m.ID)
	d := pgtest.Count(t, pool,
		`SELECT coalesce(sum(deliveries), 0) FROM processed WHERE event_id = $1`, m.ID)
	rows := pgtest.Count(t, pool, `SELECT count(*) FROM processed WHERE event_id = $1`,
		m.ID)
	if n != emails || d != deliveries || rows != 1 {
		t.Errorf("%d emails, %d deliveries in %d rows, want %d emails,"+
			" %d deliveries in one", n, d, rows, emails, deliveries)
	}
}

func TestDuplicateDeliveriesAreAbsorbedAndCounted(t *testing.T) {
	pool, _ := pgtest.Schema(t, 6)
	o, m := quickly(pool), placed("u1")
	for range 4 {
		handle(t, o, m)
	}
	wants(t, pool, m, 1, 4)
}

// Death between the commit and the acknowledgement, as an error at that step. The
// process that is really killed there is the lab's fault consumer-crash.
func TestDeathAfterTheEffect(t *testing.T) {
	pool, _ := pgtest.Schema(t, 6)
	o, m := quickly(pool), placed("u1")
	o.Steps = checkpoint.Fail(checkpoint.AfterEffect, m.ID, errBusiness)
	if err := o.Handle(t.Context(), m); !errors.Is(err, errBusiness) {
		t.Fatalf("acknowledged: %v", err)
	}
	handle(t, o, m)
	wants(t, pool, m, 1, 2)
}

func letter(t *testing.T, pool *pgxpool.Pool) inbox.Letter {
	t.Helper()
	letters, err := inbox.Letters(t.Context(), pool, inbox.Filter{})
	if err != nil || len(letters) != 1 {
		t.Fatalf("%+v, %v, want one dead letter", letters, err)
	}
	return letters[0]
}

func TestAnAddressThatBouncesMakesADeadLetter(t *testing.T) {
	pool, _ := pgtest.Schema(t, 6)
	o, m := quickly(pool), placed("bounce-u7")
	handle(t, o, m)
	wants(t, pool, m, 0, 1)
	if l := letter(t, pool); *l.EventID != m.ID || l.Attempts != 5 ||
		l.Reason != errBounced.Error() {
		t.Errorf("%+v", l)
	}
}

func TestAPayloadThatCannotBeReadIsADeadLetterAtOnce(t *testing.T) {
	for _, payload := range []string{"", "{", "null", `{"user_id":7}`,
		`{"items":["A"]}`, "\xff\xfe"} {
		pool, _ := pgtest.Schema(t, 6)
		m := placed("u1")
		m.Payload = []byte(payload)
		handle(t, quickly(pool), m)
		wants(t, pool, m, 0, 1)
		if l := letter(t, pool); l.Attempts != 1 || string(l.Payload) != payload ||
			!strings.Contains(l.Reason, "cannot be read") {
			t.Errorf("%q: %+v", payload, l)
		}
	}
}

// A replay mends nothing: it runs the effect again. Asked for before the cause is
// mended it ends as it began, afterwards it sends the one email.
func TestReplay(t *testing.T) {
	pool, _ := pgtest.Schema(t, 6)
	o, m := quickly(pool), placed("bounce-u7")
	handle(t, o, m)
	id := letter(t, pool).ID
	replay := func(o *inbox.Once, by string) {
		t.Helper()
		if err := inbox.Replay(t.Context(), pool, id, by); err != nil {
			t.Fatal(err)
		}
		if err := o.Replays(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	replay(o, "anna")
	if l := letter(t, pool); l.Status != inbox.Dead || l.Attempts != 10 ||
		*l.RequestedBy != "anna" {
		t.Errorf("not mended: %+v", l)
	}
	wants(t, pool, m, 0, 1)

	mended := quickly(pool)
	mended.Effect = func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
		order, err := read(m.Payload)
		if err != nil {
			return err
		}
		return shop.SendEmail(ctx, tx, m.ID, order.UserID, "redis")
	}
	replay(mended, "bert")
	wants(t, pool, m, 1, 1)
	err := inbox.Replay(t.Context(), pool, id, "anna")
	if !errors.Is(err, inbox.ErrNotDead) {
		t.Errorf("a second time: %v", err)
	}
	handle(t, o, m) // a late delivery
	wants(t, pool, m, 1, 2)
}

// What the listener must not do, on chapter 5's tables: ask whether the event was
// handled, and send the email if not. Two that ask at the same moment both send.
func TestWhoAsksFirstSendsTwice(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
	m := placed("u1")
	var asked sync.WaitGroup
	asked.Add(2)
	askFirst := func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			var handled bool
			const ask = `SELECT EXISTS (SELECT FROM processed WHERE event_id = $1)`
			err := tx.QueryRow(t.Context(), ask, m.ID).Scan(&handled)
			asked.Done()
			asked.Wait() // the same moment
			if err != nil || handled {
				return err
			}
			const record = `INSERT INTO processed (event_id, consumer, bus)
				VALUES ($1, 'mailer', 'redis')`
			if _, err := tx.Exec(t.Context(), record, m.ID); err != nil {
				return err
			}
			return shop.SendEmail(t.Context(), tx, m.ID, "u1", "redis")
		})
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := askFirst(); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM emails WHERE event_id = $1`,
		m.ID); n != 2 {
		t.Errorf("%d emails, want the two that this mistake costs", n)
	}
}
