package workers

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
)

var errBusiness = errors.New("simulated business failure")

func TestPlaceOrderKeepsBothRowsOrNeither(t *testing.T) {
	pool, _ := pgtest.Schema(t, 5)
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

// The chapter's point: B claims while A stands between publish and mark, and finds
// nothing; when A's lease is over B sends, and A's mark is refused.
func TestASecondRelayWithinAndAfterTheLease(t *testing.T) {
	const expire = `UPDATE outbox_claims SET lease_until = now() - interval '1 second'`
	for after, want := range map[bool]int{false: 1, true: 2} {
		pool, _ := pgtest.Schema(t, 5)
		order := shoptest.Order("nats")
		if err := (&Outbox{DB: pool}).PlaceOrder(t.Context(), order); err != nil {
			t.Fatal(err)
		}
		b, steps := &shoptest.Bus{}, &checkpoint.Steps{}
		deps := lab.Deps{DB: pool, Bus: b, BusName: "nats",
			Log: slog.New(slog.DiscardHandler)}
		second := relay(t, deps)
		steps.Arm(checkpoint.Plan{At: checkpoint.BeforeMark, EventID: order.EventID,
			Do: func(ctx context.Context) error {
				if after {
					if _, err := pool.Exec(ctx, expire); err != nil {
						return err
					}
				}
				_, err := second.Step(ctx)
				return err
			}})
		deps.Steps = steps
		res, err := relay(t, deps).Step(t.Context())
		if err != nil || res.Conflicts != want-1 || len(b.Accepted()) != want {
			t.Errorf("after the lease %v: %+v, %v, %d messages; want %d",
				after, res, err, len(b.Accepted()), want)
		}
	}
}

func relay(t *testing.T, d lab.Deps) *outbox.Relay {
	t.Helper()
	v, _ := Chapter().Variant("")
	r, ok := v.Relay(d).(*outbox.Relay)
	if !ok {
		t.Fatal("no relay")
	}
	return r
}

func TestARelayThatCannotBeMadeSaysSo(t *testing.T) {
	v, _ := Chapter().Variant("")
	if err := v.Relay(lab.Deps{}).Run(t.Context()); err == nil {
		t.Error("a relay without a database runs")
	}
}
