package twophase

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
	"outboxplayground/infra/servers/servertest"
)

var (
	errBusiness = errors.New("simulated business failure")
	errStopped  = errors.New("the coordinator stops here")
	errSilence  = errors.New("no answer in time")
)

// world is a schema with its coordinator.
type world struct {
	pool   *pgxpool.Pool
	schema string
}

func newWorld(t *testing.T) world {
	t.Helper()
	pool, schema := pgtest.Schema(t, 9)
	t.Cleanup(func() { // before the schema is dropped, which would wait for their locks
		left, err := prepared.List(context.Background(), pool, schema)
		for _, p := range left {
			err = errors.Join(err, prepared.Rollback(context.Background(), pool, p.GID))
		}
		if err != nil {
			t.Errorf("what is in doubt stays behind: %v", err)
		}
	})
	return world{pool, schema}
}

func (w world) coordinator(db shop.DB, b bus.Bus, s *checkpoint.Steps) *TwoPhase {
	return &TwoPhase{DB: db, Bus: b, Steps: s,
		Name: func(id string) string { return prepared.Name(w.schema, id) }}
}

// left counts what is left of an order: its row, and its prepared transaction.
func (w world) left(t *testing.T, o shop.Order) (orders, doubts int) {
	t.Helper()
	orders = pgtest.Count(t, w.pool, `SELECT count(*) FROM orders WHERE event_id = $1`,
		o.EventID)
	_, err := prepared.Find(t.Context(), w.pool, w.schema, o.EventID)
	if err == nil {
		doubts = 1
	} else if !errors.Is(err, prepared.ErrUnknown) {
		t.Fatal(err)
	}
	return orders, doubts
}

func TestPlaceOrder(t *testing.T) {
	w := newWorld(t)
	answers := func(err error) func(bus.Message) error {
		return func(bus.Message) error { return err }
	}
	tests := []struct {
		name                 string
		fail                 func(bus.Message) error
		at                   checkpoint.Name
		stop                 error
		told                 error // what the customer is told
		orders, doubts, sent int
	}{
		{"healthy", nil, "", nil, nil, 1, 0, 1},
		{"the business fails: nobody is asked", nil, checkpoint.BeforeCommit,
			errBusiness, errBusiness, 0, 0, 0},
		{"the broker is down: refused", answers(bus.ErrUnavailable), "", nil,
			bus.ErrUnavailable, 0, 0, 0},
		{"the broker says no: refused", answers(bus.ErrRejected), "", nil,
			bus.ErrRejected, 0, 0, 0},
		{"the broker is silent: in doubt", answers(errSilence), "", nil,
			prepared.ErrInDoubt, 0, 1, 0},
		{"stopped before the publish: in doubt", nil, checkpoint.BeforePublish,
			errStopped, prepared.ErrInDoubt, 0, 1, 0},
		{"stopped after the publish: in doubt", nil, checkpoint.AfterPublish,
			errStopped, prepared.ErrInDoubt, 0, 1, 1},
		{"stopped after the commit: done", nil, checkpoint.AfterCommit, errStopped,
			errStopped, 1, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			order, b := shoptest.Order("nats"), &shoptest.Bus{Fail: tt.fail}
			order.UserID = order.EventID // its own customer
			var steps *checkpoint.Steps
			if tt.at != "" {
				steps = checkpoint.Fail(tt.at, order.EventID, tt.stop)
			}
			err := w.coordinator(w.pool, b, steps).PlaceOrder(t.Context(), order)
			if !errors.Is(err, tt.told) || (err == nil) != (tt.told == nil) {
				t.Errorf("PlaceOrder answered %v, want %v", err, tt.told)
			}
			orders, doubts := w.left(t, order)
			if sent := len(b.Accepted()); orders != tt.orders || doubts != tt.doubts ||
				sent != tt.sent {
				t.Errorf("%d rows, %d in doubt, %d messages, want %d, %d and %d",
					orders, doubts, sent, tt.orders, tt.doubts, tt.sent)
			}
		})
	}
}

// The coordinator stops in between. Its connection is gone, the locks are not: the
// customer's next order, and the same one tried again, wait until lock_timeout ends
// the wait; everybody else's go on. Then a person ends the transaction.
func TestAnOrderInDoubtHoldsItsLocks(t *testing.T) {
	w := newWorld(t)
	order, b := shoptest.Order("nats"), &shoptest.Bus{}
	steps := checkpoint.Fail(checkpoint.AfterPublish, order.EventID, errStopped)
	if err := w.coordinator(w.pool, b, steps).PlaceOrder(
		t.Context(), order); !errors.Is(err, prepared.ErrInDoubt) {
		t.Fatal(err)
	}
	place := func(o shop.Order) error {
		return w.coordinator(w.pool, b, nil).PlaceOrder(t.Context(), o)
	}
	sameCustomer, sameEvent := shoptest.Order("nats"), order
	another := shoptest.Order("nats")
	sameEvent.UserID, another.UserID = "u2", "u3"
	waiting := make(chan error, 2)
	begun := time.Now()
	for _, o := range []shop.Order{sameCustomer, sameEvent} {
		go func() { waiting <- place(o) }()
	}
	if err := place(another); err != nil {
		t.Errorf("another customer: %v", err)
	}
	for range 2 {
		var said *pgconn.PgError
		if err := <-waiting; !errors.As(err, &said) || said.Code != "55P03" {
			t.Errorf("%v, want lock_not_available", err)
		}
	}
	if waited := time.Since(begun); waited < 2*time.Second || waited > 8*time.Second {
		t.Errorf("they gave up after %v, want the two seconds of lock_timeout", waited)
	}
	if err := prepared.Commit(t.Context(), w.pool,
		prepared.Name(w.schema, order.EventID)); err != nil {
		t.Fatal(err)
	}
	if err := place(sameCustomer); err != nil {
		t.Errorf("after the person's word: %v", err)
	}
	if n := pgtest.Count(t, w.pool,
		`SELECT orders FROM customers WHERE user_id = 'u1'`); n != 2 {
		t.Errorf("the customer has %d orders, want 2", n)
	}
	if err := place(order); !errors.Is(err, shop.ErrDuplicate) {
		t.Errorf("the same event once more: %v, want ErrDuplicate", err)
	}
}

// Lost answers, on a real connection: the word is said again, on another session, and
// the server knows whether it was heard.
func TestLostAnswersOfPostgres(t *testing.T) {
	w := newWorld(t)
	proxy, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	pool, err := pg.Open(servertest.URL(t, "postgres"), w.schema,
		pg.Options{Dial: fault.Dialer(proxy.Addr(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, tt := range []struct {
		statement    string
		refused      bool
		orders, sent int
	}{
		{"PREPARE TRANSACTION", true, 0, 0},
		{"COMMIT PREPARED", false, 1, 1},
	} {
		t.Run(tt.statement, func(t *testing.T) {
			rule, err := proxy.Inject(fault.Rule{Kind: fault.SwallowReplies,
				Arm:      []byte(tt.statement),
				CutAfter: 50 * time.Millisecond, Once: true})
			if err != nil {
				t.Fatal(err)
			}
			defer rule.Lift()
			order, b := shoptest.Order("nats"), &shoptest.Bus{}
			err = w.coordinator(pool, b, nil).PlaceOrder(t.Context(), order)
			if (err != nil) != tt.refused || errors.Is(err, prepared.ErrInDoubt) {
				t.Errorf("PlaceOrder answered %v", err)
			}
			if rule.Hits() == 0 {
				t.Error("no answer was lost")
			}
			orders, doubts := w.left(t, order)
			if sent := len(b.Accepted()); orders != tt.orders || doubts != 0 ||
				sent != tt.sent {
				t.Errorf("%d rows, %d in doubt, %d messages, want %d, 0 and %d", orders,
					doubts, sent, tt.orders, tt.sent)
			}
		})
	}
}

// Whatever comes twice is handled once, as in chapter 6.
func TestTheListenerAbsorbsRepeats(t *testing.T) {
	w := newWorld(t)
	handle := consumer(lab.Deps{DB: w.pool, BusName: "redis"}).Handle
	m := shop.OrderPlaced(shoptest.Order("redis"), Topic)
	for range 2 {
		if err := handle(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if n := pgtest.Count(t, w.pool, `SELECT count(*) FROM emails
		WHERE event_id = $1 AND bus = 'redis'`, m.ID); n != 1 {
		t.Errorf("%d emails, want 1", n)
	}
}

// off is a double of a server with max_prepared_transactions = 0, which takes a
// restart to have: the real one, with a function of the schema before pg_catalog's.
type off struct {
	shop.DB
	schema string
}

func (o off) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := o.DB.Begin(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, `SET LOCAL search_path = `+o.schema+`, pg_catalog`)
	return tx, err
}

func TestWithoutRoomTheChapterIsOff(t *testing.T) {
	w := newWorld(t)
	if err := enabled(t.Context(), lab.Deps{DB: w.pool}); err != nil {
		t.Fatal(err)
	}
	_, err := w.pool.Exec(t.Context(), `CREATE FUNCTION current_setting(text)
		RETURNS text LANGUAGE sql AS $$SELECT '0'$$`)
	if err != nil {
		t.Fatal(err)
	}
	err = enabled(t.Context(), lab.Deps{DB: off{w.pool, w.schema}})
	if !errors.Is(err, lab.ErrChapterOff) ||
		!strings.Contains(err.Error(), "ALTER SYSTEM SET max_prepared_transactions") {
		t.Errorf("%v, want that it is off, and how to turn it on", err)
	}
}
