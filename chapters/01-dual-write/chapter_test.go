package dualwrite

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
)

var errBusiness = errors.New("simulated business failure")

func unavailable(bus.Message) error { return bus.ErrUnavailable }

// place places one order the way of a variant and says what is left of it: rows in
// orders, and messages that the bus took.
func place(
	t *testing.T, variant string, b *shoptest.Bus, at checkpoint.Name,
) (orders, sent int, err error) {
	t.Helper()
	pool, _ := pgtest.Schema(t, 1)
	order := shoptest.Order("rabbitmq")
	var steps *checkpoint.Steps
	if at != "" {
		steps = checkpoint.Fail(at, order.EventID, errBusiness)
	}
	err = producer(t, variant, pool, b, steps).PlaceOrder(t.Context(), order)
	orders = pgtest.Count(t, pool,
		`SELECT count(*) FROM orders WHERE event_id = $1`, order.EventID)
	return orders, len(b.Accepted()), err
}

func producer(
	t *testing.T, variant string, pool *pgxpool.Pool, b bus.Bus, s *checkpoint.Steps,
) lab.Producer {
	t.Helper()
	v, ok := Chapter().Variant(variant)
	if !ok {
		t.Fatalf("no variant %q", variant)
	}
	return v.Producer(lab.Deps{DB: pool, Bus: b, Steps: s,
		Log: slog.New(slog.DiscardHandler)})
}

func TestPlaceOrder(t *testing.T) {
	tests := []struct {
		name, variant string
		fail          func(bus.Message) error
		at            checkpoint.Name
		refused       error // what the customer is told
		orders, sent  int
	}{
		{"healthy", "write-first", nil, "", nil, 1, 1},
		{"healthy", "publish-first", nil, "", nil, 1, 1},
		{"the broker is down: accepted and lost", "write-first",
			unavailable, "", nil, 1, 0},
		{"the broker is down: refused", "publish-first",
			unavailable, "", bus.ErrUnavailable, 0, 0},
		{"rollback sends nothing", "write-first",
			nil, checkpoint.BeforeCommit, errBusiness, 0, 0},
		{"rollback after the event left: a phantom", "publish-first",
			nil, checkpoint.BeforeCommit, errBusiness, 0, 1},
		{"the process ends after the commit: lost", "write-first",
			nil, checkpoint.AfterCommit, errBusiness, 1, 0},
		{"the process ends after the commit: both", "publish-first",
			nil, checkpoint.AfterCommit, errBusiness, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.variant+"/"+tt.name, func(t *testing.T) {
			b := &shoptest.Bus{Fail: tt.fail}
			orders, sent, err := place(t, tt.variant, b, tt.at)
			if !errors.Is(err, tt.refused) || (err == nil) != (tt.refused == nil) {
				t.Errorf("PlaceOrder answered %v, want %v", err, tt.refused)
			}
			if orders != tt.orders || sent != tt.sent {
				t.Errorf("%d rows and %d messages, want %d and %d",
					orders, sent, tt.orders, tt.sent)
			}
		})
	}
}

func TestSecondOrderWithTheSameEventIDIsRefused(t *testing.T) {
	for _, variant := range []string{"write-first", "publish-first"} {
		t.Run(variant, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, 1)
			b := &shoptest.Bus{}
			order := shoptest.Order("nats")
			p := producer(t, variant, pool, b, nil)
			if err := p.PlaceOrder(t.Context(), order); err != nil {
				t.Fatal(err)
			}
			err := p.PlaceOrder(t.Context(), order)
			if !errors.Is(err, shop.ErrDuplicate) {
				t.Errorf("second order: %v, want ErrDuplicate", err)
			}
			if n := len(b.Accepted()); n != 1 {
				t.Errorf("%d messages left, want 1", n)
			}
		})
	}
}

// The listener must be fooled: twice delivered is two emails, and an event without
// an order is an email all the same.
func TestListenerKnowsTheMessageAlone(t *testing.T) {
	pool, _ := pgtest.Schema(t, 1)
	handle := consumer(lab.Deps{DB: pool, BusName: "redis"})
	m := shop.OrderPlaced(shoptest.Order("redis"), Topic)
	for range 2 {
		if err := handle(context.Background(), m); err != nil {
			t.Fatal(err)
		}
	}
	emails := pgtest.Count(t, pool,
		`SELECT count(*) FROM emails WHERE event_id = $1 AND bus = 'redis'`, m.ID)
	rows := pgtest.Count(t, pool,
		`SELECT count(*) FROM processed WHERE event_id = $1 AND consumer = 'mailer'`,
		m.ID)
	if emails != 2 || rows != 2 {
		t.Errorf("%d emails, %d rows in processed, want 2 and 2", emails, rows)
	}
}
