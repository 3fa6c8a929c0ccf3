package audit

import (
	"context"
	"testing"
	"time"
)

// RabbitMQ does not tell what a listener of another process has in hand. One that
// stands still must not be called a loss before the broker takes its messages back.
func TestAListenerElsewhereIsGivenTime(t *testing.T) {
	empty := func(context.Context, int, string) (int64, error) { return 0, nil }
	for _, c := range []struct {
		bus       string
		elsewhere bool
		since     time.Duration
		lost      int
	}{
		{"rabbitmq", false, 10 * time.Second, 1},
		{"rabbitmq", true, 10 * time.Second, 0},
		{"rabbitmq", true, time.Minute, 1},
		{"redis", true, 10 * time.Second, 1}, // counts what is in anybody's hands
	} {
		now := time.Now()
		sent := now.Add(-c.since)
		for name, trail := range map[string]Trail{
			"with an outbox": {Order: &Order{CreatedAt: sent}, Outbox: &Outbox{Status: "sent", SentAt: &sent}},
			"without one":    {Order: &Order{CreatedAt: sent}},
		} {
			trail.Bus, trail.AsOf, trail.elsewhere = c.bus, now, c.elsewhere
			w, err := Source{}.ask(t.Context(), &trail, empty)
			if err != nil {
				t.Fatal(err)
			}
			if trail.judge(w); trail.Verdict.Lost != c.lost || trail.Verdict.Pending != 1-c.lost {
				t.Errorf("%s, %+v: %+v (%s)", name, c, trail.Verdict, trail.Why)
			}
		}
	}
}
