package audit_test

import (
	"strings"
	"testing"

	"outboxplayground/core/audit"
	"outboxplayground/core/pg/pgtest"
)

const (
	aLetter = `WITH p AS (INSERT INTO processed (event_id, consumer, bus, deliveries) VALUES ($1, 'mailer', 'nats', 3)
			ON CONFLICT DO NOTHING)
		INSERT INTO dead_letters (event_id, message_id, consumer, bus, topic, key, payload, headers, reason, attempts, status, first_at)
		VALUES ($1, $1::uuid::text, 'mailer', 'nats', 'safe', '', '{', '{}', 'no such user', 5, $2, now())`
	anUnnamedLetter = `INSERT INTO dead_letters (message_id, consumer, bus, topic, key, payload, headers, reason, attempts, first_at)
		VALUES ('?', 'mailer', 'nats', 'safe', '', '', '{}', 'no id', 0, now())`
)

// The three ways of reading agree on what a dead letter means: one event alone, every
// event, and the count of all.
func TestDeadLetters(t *testing.T) {
	for _, tt := range []struct {
		name   string
		story  story
		letter string // its state
		valid  audit.Validity
		want   audit.Verdict
		why    string
	}{
		{"dead", story{order: "1 min", outbox: "sent", sent: "50 s"}, "dead",
			audit.False, audit.Verdict{Orders: 1, Stuck: 1}, "after 5 attempts"},
		{"its replay is under way", story{order: "1 min", outbox: "sent", sent: "50 s"}, "requested",
			audit.Unknown, audit.Verdict{Orders: 1, Pending: 1}, "was asked for"},
		{"replayed", story{order: "1 min", outbox: "sent", effects: 1}, "replayed",
			audit.True, audit.Verdict{Orders: 1, Delivered: 1}, "its email"},
		{"given up, and not yet marked as sent", story{order: "1 min", outbox: "pending"}, "dead",
			audit.Unknown, audit.Verdict{Orders: 1, Pending: 1}, "pending"},
		{"the row failed, although the event arrived", story{order: "1 min", outbox: "failed"}, "dead",
			audit.False, audit.Verdict{Orders: 1, Stuck: 1}, "a person retries it"},
		{"of no order: stuck, and no phantom, for nothing came of it", story{}, "dead",
			audit.False, audit.Verdict{Stuck: 1}, "after 5 attempts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool, _ := pgtest.Alone(t, 6)
			id := tt.story.write(t, pool)
			mustExec(t, pool, aLetter, id, tt.letter)
			mustExec(t, pool, anUnnamedLetter) // of no event: it changes nothing
			s := audit.Source{Chapter: 6, DB: pool, Outbox: true, DeadLetters: true}
			alone, err := audit.Event(t.Context(), s, holds(0), id)
			if err != nil {
				t.Fatal(err)
			}
			if alone.Verdict != tt.want || alone.Valid != tt.valid || !strings.Contains(alone.Why, tt.why) {
				t.Errorf("%+v %s %q, want %+v %s %q", alone.Verdict, alone.Valid, alone.Why, tt.want, tt.valid, tt.why)
			}
			if d := alone.DeadLetters; len(d) != 1 || d[0].Status != tt.letter || d[0].Reason != "no such user" || alone.Bus != "nats" {
				t.Errorf("the letters are %+v", d)
			}
			all, err := audit.Trails(t.Context(), s, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := all[id]; got.Verdict != tt.want || len(all) != 1 || len(got.DeadLetters) != 1 {
				t.Errorf("among all: %+v, want %+v", got, tt.want)
			}
			if v, err := audit.Tally(t.Context(), s, true); err != nil || v != tt.want {
				t.Errorf("tally: %+v, %v, want %+v", v, err, tt.want)
			}
			var text strings.Builder
			if err := alone.WriteText(&text); err != nil || !strings.Contains(text.String(), "dead letter") ||
				!strings.Contains(text.String(), `"no such user"`) {
				t.Errorf("%v: %s", err, &text)
			}
		})
	}
}

func TestAbsorbedDeliveriesAreSaid(t *testing.T) {
	pool, _ := pgtest.Alone(t, 6)
	id := story{order: "1 min", outbox: "sent", effects: 1}.write(t, pool)
	mustExec(t, pool, `UPDATE processed SET deliveries = 3 WHERE event_id = $1`, id)
	s := audit.Source{Chapter: 6, DB: pool, Outbox: true, DeadLetters: true}
	trail, err := audit.Event(t.Context(), s, neverAsked(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if trail.Valid != audit.True || trail.Processed[0].Deliveries != 3 || !strings.Contains(trail.Why, "without effect: 2") {
		t.Errorf("%s %q %+v", trail.Valid, trail.Why, trail.Processed)
	}
}

// A dead letter is no loss: the message is there. Where the table is missing or empty,
// what was sent and has no email is lost as before.
func TestLostWithDeadLetterTable(t *testing.T) {
	pool, _ := pgtest.Alone(t, 6)
	id := story{order: "1 min", outbox: "sent", sent: "50 s"}.write(t, pool)
	s := audit.Source{Chapter: 6, DB: pool, Outbox: true, DeadLetters: true}
	want := audit.Verdict{Orders: 1, Lost: 1}
	if trail, err := audit.Event(t.Context(), s, holds(0), id); err != nil || trail.Verdict != want {
		t.Errorf("%+v, %v", trail.Verdict, err)
	}
	if v, err := audit.Tally(t.Context(), s, true); err != nil || v != want {
		t.Errorf("%+v, %v", v, err)
	}
}
