package twophase

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
)

// recover lets the recovery see one event, however young its transaction is.
func (w world) recover(t *testing.T, b bus.Bus, o shop.Order) {
	t.Helper()
	p, err := prepared.Find(t.Context(), w.pool, w.schema, o.EventID)
	if err != nil {
		t.Fatal(err)
	}
	r := &Recovery{DB: w.pool, Bus: b, BusName: o.Bus, Schema: w.schema,
		Log: slog.New(slog.DiscardHandler)}
	if err := r.settle(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// placed is what a listener reads, whatever the spacing.
func placed(t *testing.T, m bus.Message) string {
	t.Helper()
	var p shop.Placed
	if err := json.Unmarshal(m.Payload, &p); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v", p)
}

// What stopped after its decision is sent again and committed; what had none yet is
// rolled back, and sent by nobody.
func TestRecoveryFollowsTheDecision(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name         string
		decided      bool
		orders, sent int
	}{{"decided", true, 1, 1}, {"presumed abort", false, 0, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			order, b := shoptest.Order("nats"), &shoptest.Bus{}
			order.UserID = order.EventID
			steps := checkpoint.Fail(checkpoint.BeforePublish, order.EventID,
				errStopped)
			plain := w.coordinator(w.pool, b, steps)
			place := plain.PlaceOrder
			if tt.decided {
				place = (&Recovering{*plain}).PlaceOrder
			}
			if err := place(t.Context(), order); !errors.Is(err, prepared.ErrInDoubt) {
				t.Fatal(err)
			}
			w.recover(t, b, order)
			orders, doubts := w.left(t, order)
			if sent := b.Accepted(); orders != tt.orders || doubts != 0 ||
				len(sent) != tt.sent {
				t.Errorf("%d rows, %d in doubt, %d messages, want %d, 0 and %d", orders,
					doubts, len(sent), tt.orders, tt.sent)
			}
			for _, m := range b.Accepted() {
				want := shop.OrderPlaced(order, Topic)
				if m.ID != want.ID || m.Topic != want.Topic || m.Key != want.Key ||
					placed(t, m) != placed(t, want) {
					t.Errorf("sent again: %+v, want %+v", m, want)
				}
			}
		})
	}
}

// A coordinator that was only slow is overtaken in silence: its own decision comes too
// late and fails, so it sends nothing; and it takes nothing back once it is taken.
func TestASlowCoordinatorIsOvertaken(t *testing.T) {
	w := newWorld(t)
	order, b := shoptest.Order("nats"), &shoptest.Bus{}
	steps := checkpoint.Fail(checkpoint.BeforePublish, order.EventID, errStopped)
	slow := &Recovering{*w.coordinator(w.pool, b, steps)}
	err := slow.TwoPhase.PlaceOrder(t.Context(), order)
	if !errors.Is(err, prepared.ErrInDoubt) { // it has prepared
		t.Fatal(err)
	}
	w.recover(t, b, order)
	if err := decide(t.Context(), w.pool, slow.Name(order.EventID), order); err == nil {
		t.Error("a second decision stands")
	}
	err = slow.withdraw(t.Context(), slow.Name(order.EventID), order, errSilence)
	if !errors.Is(err, prepared.ErrInDoubt) {
		t.Errorf("taken back after somebody has acted on it: %v", err)
	}
	if orders, doubts := w.left(t, order); orders+doubts+len(b.Accepted()) != 0 {
		t.Errorf("%d rows, %d in doubt, %d messages, want none", orders, doubts,
			len(b.Accepted()))
	}
}

// A coordinator that was stopped for so long that the abort is forgotten as well must
// not take that for the first decision, or it would send a phantom.
func TestADecisionAfterTheEnd(t *testing.T) {
	w := newWorld(t)
	order, b := shoptest.Order("nats"), &shoptest.Bus{}
	steps := checkpoint.Fail(checkpoint.BeforePublish, order.EventID, errStopped)
	slow := &Recovering{*w.coordinator(w.pool, b, steps)}
	err := slow.TwoPhase.PlaceOrder(t.Context(), order)
	if !errors.Is(err, prepared.ErrInDoubt) {
		t.Fatal(err)
	}
	w.recover(t, b, order)
	const minutes = `UPDATE decisions SET at = at - interval '2 minutes'`
	for _, sql := range []string{minutes, forgetDecisions} {
		if _, err := w.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	err = decide(t.Context(), w.pool, slow.Name(order.EventID), order)
	if !errors.Is(err, errOvertaken) {
		t.Errorf("decided after the end: %v", err)
	}
	if n := pgtest.Count(t, w.pool, `SELECT count(*) FROM decisions`); n != 0 {
		t.Errorf("%d decisions, want none", n)
	}
}

// Somebody who recovers may have sent the event, without an answer: from then on the
// order cannot be rolled back.
func TestWhatWasTakenIsNotTakenBack(t *testing.T) {
	w := newWorld(t)
	order := shoptest.Order("nats")
	b := &shoptest.Bus{Fail: func(bus.Message) error { return errSilence }}
	slow := &Recovering{*w.coordinator(w.pool, b, nil)}
	err := slow.PlaceOrder(t.Context(), order)
	if !errors.Is(err, prepared.ErrInDoubt) {
		t.Fatal(err)
	}
	p, err := prepared.Find(t.Context(), w.pool, w.schema, order.EventID)
	if err != nil {
		t.Fatal(err)
	}
	r := &Recovery{DB: w.pool, Bus: b, BusName: order.Bus, Schema: w.schema}
	if err := r.settle(t.Context(), p); !errors.Is(err, errSilence) {
		t.Errorf("the recovery said %v", err)
	}
	err = slow.withdraw(t.Context(), slow.Name(order.EventID), order,
		bus.ErrUnavailable)
	if orders, doubts := w.left(t, order); !errors.Is(err, prepared.ErrInDoubt) ||
		orders != 0 || doubts != 1 {
		t.Errorf("%v; %d rows, %d in doubt, want one in doubt", err, orders, doubts)
	}
}

// A broker that is away is refused in both ways, and its decision taken back.
func TestRecoveringRefusesAsWell(t *testing.T) {
	w := newWorld(t)
	order := shoptest.Order("nats")
	b := &shoptest.Bus{Fail: func(bus.Message) error { return bus.ErrUnavailable }}
	err := (&Recovering{*w.coordinator(w.pool, b, nil)}).PlaceOrder(t.Context(), order)
	if !errors.Is(err, bus.ErrUnavailable) || errors.Is(err, prepared.ErrInDoubt) {
		t.Errorf("PlaceOrder answered %v, want that it is refused", err)
	}
	if orders, doubts := w.left(t, order); orders+doubts != 0 {
		t.Errorf("%d rows, %d in doubt", orders, doubts)
	}
}
