package aftercommit

import (
	"errors"
	"log/slog"
	"testing"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

var errBusiness = errors.New("simulated business failure")

// The three lines at which a process can die, and the outage: what chapter 2
// mends is the first row only.
func TestPlaceOrder(t *testing.T) {
	down := func(bus.Message) error { return bus.ErrUnavailable }
	tests := []struct {
		name         string
		fail         func(bus.Message) error
		at           checkpoint.Name
		refused      error
		orders, sent int
	}{
		{"rollback sends nothing", nil, checkpoint.BeforeCommit, errBusiness, 0, 0},
		{"healthy", nil, "", nil, 1, 1},
		{"the process ends between commit and dispatch: lost", nil,
			checkpoint.AfterCommit, errBusiness, 1, 0},
		{"the process ends after the publish", nil, checkpoint.AfterPublish, nil, 1, 1},
		{"the broker is down: accepted and lost", down, "", nil, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, 2)
			b := &shoptest.Bus{Fail: tt.fail}
			order := shoptest.Order("kafka")
			var steps *checkpoint.Steps
			if tt.at != "" {
				steps = checkpoint.Fail(tt.at, order.EventID, errBusiness)
			}
			v, _ := Chapter().Variant("")
			p := v.Producer(lab.Deps{DB: pool, Bus: b, Steps: steps,
				Log: slog.New(slog.DiscardHandler)})
			err := p.PlaceOrder(t.Context(), order)
			if !errors.Is(err, tt.refused) || (err == nil) != (tt.refused == nil) {
				t.Errorf("PlaceOrder answered %v, want %v", err, tt.refused)
			}
			orders := pgtest.Count(t, pool,
				`SELECT count(*) FROM orders WHERE event_id = $1`, order.EventID)
			if sent := len(b.Accepted()); orders != tt.orders || sent != tt.sent {
				t.Errorf("%d rows and %d messages, want %d and %d",
					orders, sent, tt.orders, tt.sent)
			}
		})
	}
}
