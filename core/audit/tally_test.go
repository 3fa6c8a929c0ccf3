package audit_test

import (
	"fmt"
	"testing"

	"outboxplayground/core/audit"
	"outboxplayground/core/pg/pgtest"
)

const aNote = `INSERT INTO processed (event_id, consumer, bus) VALUES ($1, 'mailer', 'nats')`

// One of each kind at every level of the schema: the count of all, in one query, and
// the sum of the single trails have to agree with each other and with the truth.
func TestTallyCountsEveryKind(t *testing.T) {
	plain := []story{
		{order: "1 min", effects: 1},
		{order: "1 min", effects: 3},
		{order: "1 min"},
		{effects: 1},
		{effects: 2},
	}
	withOutbox := []story{
		{order: "1 min", outbox: "sent", effects: 1},
		{order: "1 min", outbox: "sent", effects: 3},
		{order: "1 min", outbox: "sent"},
		{order: "1 min", outbox: "failed"},
		{order: "1 min", outbox: "failed", effects: 1},
		{order: "1 min", outbox: "pending"},
		{order: "1 min", outbox: "pending", effects: 1},
		{order: "1 min"}, // its row was never written
		{effects: 1},
		{effects: 2},
	}
	all := audit.Verdict{Orders: 9, Delivered: 4, Duplicated: 2, Phantom: 2, Stuck: 2, Pending: 2, Lost: 3}
	for _, c := range []struct {
		level   int
		stories []story
		want    audit.Verdict
	}{
		{1, plain, audit.Verdict{Orders: 4, Delivered: 2, Duplicated: 2, Phantom: 2, Lost: 2}},
		{3, withOutbox, all},
		{6, withOutbox, all},
	} {
		t.Run(fmt.Sprintf("level %d", c.level), func(t *testing.T) {
			pool, _ := pgtest.Alone(t, c.level)
			for _, s := range c.stories {
				s.write(t, pool)
			}
			// Noted by the listener, and no email came of it: a loss like any other.
			noted := story{order: "1 min"}
			if c.level >= 3 {
				noted.outbox = "sent"
			}
			mustExec(t, pool, aNote, noted.write(t, pool))
			mustExec(t, pool, `UPDATE orders SET items = jsonb_build_array(event_id::text)`)
			s := audit.Source{Chapter: c.level, DB: pool, Outbox: c.level >= 3, DeadLetters: c.level >= 6}
			over, err := audit.Tally(t.Context(), s, true)
			if err != nil || over != c.want {
				t.Errorf("%+v, %v, want %+v", over, err, c.want)
			}
			open := c.want
			open.Lost, open.Pending = 0, c.want.Pending+c.want.Lost
			if v, err := audit.Tally(t.Context(), s, false); err != nil || v != open {
				t.Errorf("while more may come: %+v, %v, want %+v", v, err, open)
			}
			trails, err := audit.Trails(t.Context(), s, true)
			if err != nil {
				t.Fatal(err)
			}
			var sum audit.Verdict
			for _, e := range trails {
				v := e.Verdict
				sum.Orders, sum.Delivered, sum.Lost = sum.Orders+v.Orders, sum.Delivered+v.Delivered, sum.Lost+v.Lost
				sum.Duplicated, sum.Phantom = sum.Duplicated+v.Duplicated, sum.Phantom+v.Phantom
				sum.Stuck, sum.Pending = sum.Stuck+v.Stuck, sum.Pending+v.Pending
				if e.Order != nil && (len(e.Order.Items) != 1 || e.Order.Items[0] != e.EventID) {
					t.Errorf("order %s has the items of another one: %v", e.EventID, e.Order.Items)
				}
			}
			if sum != c.want {
				t.Errorf("one by one: %+v, want %+v", sum, c.want)
			}
			if trails, err = audit.Trails(t.Context(), s, false); err != nil {
				t.Fatal(err)
			}
			for id, e := range trails {
				if e.Verdict.Lost+e.Verdict.Phantom > 0 {
					t.Errorf("%s while more may come: %+v", id, e.Verdict)
				}
			}
		})
	}
}
