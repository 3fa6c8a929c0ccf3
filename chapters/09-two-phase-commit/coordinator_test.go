package twophase

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop/shoptest"
)

// state is the SQLSTATE in an error, "" where there is none.
func state(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code
	}
	return ""
}

// The second word is said again until it was heard. That it has no effect any more
// proves so only if it may have got through before.
func TestInsist(t *testing.T) {
	_, unreached := pgx.Connect(t.Context(), "postgres://127.0.0.1:1/nowhere")
	full, gone := &pgconn.PgError{Code: "53300"}, prepared.ErrUnknown
	for _, tt := range []struct {
		name  string
		said  []error // what each word is answered
		doubt bool
	}{
		{"heard", []error{nil}, false},
		{"no connection to spare", []error{full, nil}, false},
		{"not reached", []error{unreached, nil}, false},
		{"the answer was lost", []error{io.ErrUnexpectedEOF, gone}, false},
		{"not reached, then gone", []error{unreached, gone}, true},
		{"somebody else ends it", []error{prepared.ErrBusy, gone}, true},
		{"gone before", []error{gone}, true},
		{"refused", []error{&pgconn.PgError{Code: "42501"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			words := 0
			err := insist(t.Context(), func(context.Context) error {
				words++
				return tt.said[words-1]
			})
			doubt := errors.Is(err, prepared.ErrInDoubt)
			if doubt != tt.doubt || (err != nil) != tt.doubt {
				t.Errorf("%v, want in doubt: %t", err, tt.doubt)
			}
			if words != len(tt.said) {
				t.Errorf("%d words, want %d", words, len(tt.said))
			}
		})
	}
}

// What was refused is forgotten: the same order may be placed again.
func TestARefusedOrderIsPlacedAgain(t *testing.T) {
	w, order, away := newWorld(t), shoptest.Order("nats"), true
	b := &shoptest.Bus{Fail: func(bus.Message) error {
		if away {
			return bus.ErrUnavailable
		}
		return nil
	}}
	s := &Recovering{*w.coordinator(w.pool, b, nil)}
	if err := s.PlaceOrder(t.Context(), order); !errors.Is(err, bus.ErrUnavailable) {
		t.Fatal(err)
	}
	away = false
	if err := s.PlaceOrder(t.Context(), order); err != nil {
		t.Errorf("again: %v", err)
	}
	orders, doubts := w.left(t, order)
	if sent := len(b.Accepted()); orders != 1 || doubts != 0 || sent != 1 {
		t.Errorf("%d rows, %d in doubt, %d messages, want 1, 0 and 1",
			orders, doubts, sent)
	}
}

// While the event is sent a person ends the transaction. The customer is told that
// there is an order only if there is one.
func TestAPersonIsFaster(t *testing.T) {
	w := newWorld(t)
	for name, word := range map[string]func(context.Context, string) error{
		"commit": func(ctx context.Context, gid string) error {
			return prepared.Commit(ctx, w.pool, gid)
		},
		"rollback": func(ctx context.Context, gid string) error {
			return prepared.Rollback(ctx, w.pool, gid)
		},
	} {
		t.Run(name, func(t *testing.T) {
			order := shoptest.Order("nats")
			b := &shoptest.Bus{Fail: func(bus.Message) error {
				name := prepared.Name(w.schema, order.EventID)
				return word(context.Background(), name)
			}}
			s := &Recovering{*w.coordinator(w.pool, b, nil)}
			err := s.PlaceOrder(t.Context(), order)
			if orders, _ := w.left(t, order); (err == nil) != (orders == 1) ||
				errors.Is(err, prepared.ErrInDoubt) != (name == "rollback") {
				t.Errorf("PlaceOrder answered %v; %d rows", err, orders)
			}
		})
	}
}

// The decision about an event is somebody else's, who may have ended the transaction
// and have another order prepared under the name: that one is not rolled back.
func TestAnOvertakenCoordinatorEndsNothing(t *testing.T) {
	w, order, b := newWorld(t), shoptest.Order("nats"), &shoptest.Bus{}
	if _, err := w.pool.Exec(t.Context(), `INSERT INTO decisions VALUES
		($1, 'commit', false, 'nats', '', '', '{}')`, order.EventID); err != nil {
		t.Fatal(err)
	}
	err := (&Recovering{*w.coordinator(w.pool, b, nil)}).PlaceOrder(t.Context(), order)
	if !errors.Is(err, prepared.ErrInDoubt) || state(err) != "" {
		t.Errorf("%v, want in doubt, and not that the order exists", err)
	}
	orders, doubts := w.left(t, order)
	if sent := len(b.Accepted()); orders != 0 || doubts != 1 || sent != 0 {
		t.Errorf("%d rows, %d in doubt, %d messages, want one in doubt",
			orders, doubts, sent)
	}
}
