package main

import (
	"testing"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// stories are the cells that the texts tell of, with what must be seen in them
// beyond their declaration.
func stories() map[string]func(*testing.T, lab.Result) {
	return map[string]func(*testing.T, lab.Result){
		"1/write-first/rabbitmq/broker-down": twelveEmails,
		"1/write-first/kafka/broker-down":    twelveEmails,
		"1/write-first/nats/broker-down":     twelveEmails,
		"1/write-first/redis/broker-down":    twelveEmails,

		"3/outbox/rabbitmq/crash-after-commit": allDelivered,
		"3/outbox/inmemory/crash-after-commit": allDelivered,

		"3/outbox/rabbitmq/crash-after-publish":   duplicate13,
		"3/outbox/kafka/crash-after-publish":      duplicate13,
		"3/outbox/redis/crash-after-publish":      duplicate13,
		"3/outbox/nats/crash-after-publish":       allDelivered,
		"3/dedupe-100ms/nats/crash-after-publish": duplicate13,
		"3/dedupe-100ms/nats/ack-lost":            duplicate13,
		"3/dedupe-100ms/nats/two-relays":          duplicate13,
		"3/dedupe-100ms/nats/zombie-relay":        duplicate13,

		"1/publish-first/nats/rollback": phantom13,

		"3/outbox/inmemory/crash-after-mark": sentAndLost,

		"6/once/rabbitmq/consumer-crash":          absorbed13,
		"6/once/kafka/consumer-crash":             absorbed13,
		"6/once/nats/consumer-crash":              absorbed13,
		"6/once/redis/consumer-crash":             absorbed13,
		"6/once/redis/crash-after-publish":        absorbed13,
		"6/dedupe-100ms/nats/crash-after-publish": absorbed13,
	}
}

// measured compares every count.
func measured(t *testing.T, res lab.Result, want audit.Verdict) {
	t.Helper()
	if got := res.Report.Measured; got != want {
		t.Errorf("measured %+v, want %+v", got, want)
	}
}

// smallest compares the counterexample and checks that its trail shows it.
func smallest(t *testing.T, res lab.Result, order int, what string) lab.EventTrail {
	t.Helper()
	s := res.Report.Smallest
	if s == nil || s.Order != order || s.What != what {
		t.Fatalf("the smallest counterexample is %+v, want order %d %s", s, order, what)
	}
	trail := res.Trails[order-1]
	if trail.Trail.EventID != s.EventID || trail.Order != order {
		t.Errorf("the counterexample is %s, the trail of order %d is that of %s", s.EventID, order, trail.Trail.EventID)
	}
	if trail.Trail.Valid != audit.False || len(trail.Timeline) == 0 {
		t.Errorf("the counterexample's trail says %s, with %d steps", trail.Trail.Valid, len(trail.Timeline))
	}
	return trail
}

// twelveEmails is the night of the article.
func twelveEmails(t *testing.T, res lab.Result) {
	measured(t, res, audit.Verdict{Orders: 47, Delivered: 12, Lost: 35})
	smallest(t, res, 13, "lost")
	for _, e := range res.Trails {
		if e.Answer != "created" {
			t.Errorf("the client of order %d was answered %q: it was to believe that all is well", e.Order, e.Answer)
		}
	}
	if f := res.Report.Faults[0]; f.Hits != 35 || f.Network == 0 || f.FromOrder != 13 || f.ToOrder != 47 {
		t.Errorf("the outage: %+v", f)
	}
}

func allDelivered(t *testing.T, res lab.Result) {
	measured(t, res, audit.Verdict{Orders: 47, Delivered: 47})
	if res.Report.Smallest != nil || res.Report.Valid != audit.True {
		t.Errorf("valid %s, with the counterexample %+v", res.Report.Valid, res.Report.Smallest)
	}
}

func duplicate13(t *testing.T, res lab.Result) {
	measured(t, res, audit.Verdict{Orders: 47, Delivered: 47, Duplicated: 1})
	if trail := smallest(t, res, 13, "duplicated"); len(trail.Trail.Emails) != 2 {
		t.Errorf("%d emails", len(trail.Trail.Emails))
	}
}

func phantom13(t *testing.T, res lab.Result) {
	measured(t, res, audit.Verdict{Orders: 46, Delivered: 46, Phantom: 1, Refused: 1})
	trail := smallest(t, res, 13, "phantom")
	if trail.Trail.Order != nil || len(trail.Trail.Emails) != 1 || trail.Answer != "refused" {
		t.Errorf("the client was answered %q, the order is %+v, %d emails", trail.Answer, trail.Trail.Order, len(trail.Trail.Emails))
	}
}

// sentAndLost: the row says sent, and the broker died with what it was sent.
func sentAndLost(t *testing.T, res lab.Result) {
	measured(t, res, audit.Verdict{Orders: 47, Delivered: 46, Lost: 1})
	if x := smallest(t, res, 13, "lost").Trail.Outbox; x == nil || x.Status != "sent" || x.SentAt == nil {
		t.Errorf("the row of what was lost is %+v, want it sent", x)
	}
}

// absorbed13: the event came twice, which the row of the first delivery says, and one
// email went out.
func absorbed13(t *testing.T, res lab.Result) {
	allDelivered(t, res)
	trail := res.Trails[12].Trail
	if len(trail.Emails) != 1 || len(trail.Processed) != 1 || trail.Processed[0].Deliveries < 2 {
		t.Errorf("%d emails, processed %+v: want one email, and a row for two deliveries or more", len(trail.Emails), trail.Processed)
	}
}
