package twophase

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
)

// playground runs the chapter as an interactive one, on a double of a bus.
func playground(t *testing.T, b bus.Bus) (*lab.Live, *pgxpool.Pool) {
	t.Helper()
	info := lab.BusInfo{Name: "nats", Mode: "double", State: lab.Starting}
	live, err := lab.NewLive(t.Context(), lab.LiveConfig{
		Chapters: []lab.Chapter{Chapter()}, DatabaseURL: pgtest.Database(t),
		Buses: []lab.BusInfo{info}, Relay: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- live.Run(ctx) }()
	pool := live.DB(9)
	t.Cleanup(func() {
		cancel()
		<-done
		left, err := prepared.List(context.Background(), pool, "ch09")
		for _, p := range left {
			err = errors.Join(err, prepared.Rollback(context.Background(), pool, p.GID))
		}
		if err != nil {
			t.Error(err)
		}
		live.Close()
	})
	live.Attach(info, func(context.Context, lab.BusOptions) (bus.Bus, error) {
		return b, nil
	})
	return live, pool
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !done(); time.Sleep(
		20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

// prepareForeign leaves a transaction prepared that is no order's.
func prepareForeign(t *testing.T, pool *pgxpool.Pool, name string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`SELECT pg_current_xact_id()`,
		`PREPARE TRANSACTION ` + prepared.Quote(name)} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	_ = tx.Rollback(t.Context()) // only gives the connection back
}

// Both variants of an interactive chapter leave their orders in one schema. What is
// decided is finished; what is not, and what is no order's, is left alone. Neither
// keeps old decisions from being forgotten.
func TestAPlaygroundRecoversWhatIsDecided(t *testing.T) {
	b := &shoptest.Bus{}
	live, pool := playground(t, b)
	eventually(t, "the bus", func() bool {
		info, err := live.Bus("nats")
		return err == nil && info.State == lab.Ready
	})
	prepareForeign(t, pool, "ch09.somebody "+uuid.NewString())
	place := func(variant string) shop.Order {
		o := shoptest.Order("nats")
		o.UserID = o.EventID
		stop := checkpoint.Fail(checkpoint.AfterPublish, o.EventID, errStopped)
		_, err := live.Place(t.Context(), 9, variant, o, stop)
		if !errors.Is(err, prepared.ErrInDoubt) {
			t.Fatalf("%s: %v", variant, err)
		}
		return o
	}
	silent, logged := place("two-phase"), place("recovering")
	w := world{pool, "ch09"}
	eventually(t, "the decided order", func() bool {
		orders, _ := w.left(t, logged)
		return orders == 1
	})
	if orders, doubts := w.left(t, silent); orders != 0 || doubts != 1 {
		t.Errorf("two-phase: %d rows, %d in doubt, want one in doubt", orders, doubts)
	}
	sent := map[string]int{}
	for _, m := range b.Accepted() {
		sent[m.ID]++
	}
	if sent[silent.EventID] != 1 || sent[logged.EventID] != 2 {
		t.Errorf("sent %v, want the recovered one twice", sent)
	}
	// By now the recovery has come to what is no order's, too.
	if _, err := pool.Exec(t.Context(), `INSERT INTO decisions VALUES
		(gen_random_uuid(), 'abort', true, 'nats', '', '', '{}',
			now() - interval '1 hour')
		`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old decision is forgotten", func() bool {
		return pgtest.Count(t, pool, `SELECT count(*) FROM decisions`) == 1
	})
}

// Names are the server's: one that is in use in another database is PostgreSQL's no.
func TestANameInUseElsewhere(t *testing.T) {
	w, order, b := newWorld(t), shoptest.Order("nats"), &shoptest.Bus{}
	elsewhere, err := pgx.Connect(t.Context(), pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	name := prepared.Name(w.schema, order.EventID)
	for _, sql := range []string{`BEGIN`, `SELECT pg_current_xact_id()`,
		`PREPARE TRANSACTION ` + prepared.Quote(name)} {
		if _, err := elsewhere.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	err = w.coordinator(w.pool, b, nil).PlaceOrder(t.Context(), order)
	if said := state(err); said != "42710" || errors.Is(err, prepared.ErrInDoubt) {
		t.Errorf("%v, want duplicate_object", err)
	}
	if orders, _ := w.left(t, order); orders+len(b.Accepted()) != 0 {
		t.Errorf("%d rows, %d messages, want none", orders, len(b.Accepted()))
	}
	if err := prepared.Rollback(t.Context(), elsewhere, name); err != nil {
		t.Error(err)
	}
	_ = elsewhere.Close(context.Background()) // or its database could not be dropped
}
