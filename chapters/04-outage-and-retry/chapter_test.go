package outage

import (
	"errors"
	"log/slog"
	"testing"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
)

var errBusiness = errors.New("simulated business failure")

func TestPlaceOrderKeepsBothRowsOrNeither(t *testing.T) {
	pool, _ := pgtest.Schema(t, 4)
	count := func(table, id string) int {
		return pgtest.Count(t, pool,
			`SELECT count(*) FROM `+table+` WHERE event_id = $1`, id)
	}
	kept, refused := shoptest.Order("redis"), shoptest.Order("redis")
	p := &Outbox{DB: pool, Steps: checkpoint.Fail(checkpoint.BeforeCommit,
		refused.EventID, errBusiness)}
	if err := p.PlaceOrder(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if err := p.PlaceOrder(t.Context(), refused); !errors.Is(err, errBusiness) {
		t.Errorf("PlaceOrder answered %v, want the business failure", err)
	}
	if err := p.PlaceOrder(t.Context(), kept); !errors.Is(err, shop.ErrDuplicate) {
		t.Errorf("the same order again: %v, want ErrDuplicate", err)
	}
	for id, want := range map[string]int{kept.EventID: 1, refused.EventID: 0} {
		if o, e := count("orders", id), count("outbox", id); o != want || e != want {
			t.Errorf("%d orders, %d outbox rows, want %d and %d", o, e, want, want)
		}
	}
	keyed := pgtest.Count(t, pool, `SELECT count(*) FROM outbox
		WHERE key = 'u1' AND topic = 'safe' AND payload->>'user_id' = 'u1'`)
	if keyed != 1 {
		t.Error("the row lacks the key, the topic or the payload of its event")
	}
}

// The chapter's point, step by step: the same outage under both policies.
func TestAnOutageUnderBothPolicies(t *testing.T) {
	for name, want := range map[string]string{
		"patient": "pending", "article-policy": "failed",
	} {
		pool, _ := pgtest.Schema(t, 4)
		for range 3 {
			if err := (&Outbox{DB: pool}).PlaceOrder(t.Context(),
				shoptest.Order("nats")); err != nil {
				t.Fatal(err)
			}
		}
		v, ok := Chapter().Variant(name)
		if !ok {
			t.Fatalf("there is no variant %s", name)
		}
		down := func(bus.Message) error { return bus.ErrUnavailable }
		away := &shoptest.Bus{Fail: down}
		deps := lab.Deps{DB: pool, Bus: away, BusName: "nats",
			Log: slog.New(slog.DiscardHandler)}
		for range 5 {
			// A new relay each time, as its next poll would: from the first row on.
			relay, ok := v.Relay(deps).(*outbox.Relay)
			if !ok {
				t.Fatalf("%s: no relay", name)
			}
			if _, err := relay.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE status = $1`,
			want); n != 3 {
			t.Errorf("%s: %d rows are %s after an outage of five polls, want 3",
				name, n, want)
		}
	}
}

func TestARelayThatCannotBeMadeSaysSo(t *testing.T) {
	v, _ := Chapter().Variant("")
	if err := v.Relay(lab.Deps{}).Run(t.Context()); err == nil {
		t.Error("a relay without a database runs")
	}
}
