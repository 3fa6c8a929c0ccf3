package brokertest

import (
	"bytes"
	"context"
	"time"

	"outboxplayground/core/bus"
)

func refusalChecks() []Check {
	return []Check{
		{Name: "oversized-payload", skip: func(_ Harness, f Features) string {
			return unless(f.Oversized > 0, "declares no size that is too large")
		}, run: oversizedPayload},
		{Name: "missing-destination", run: missingDestination},
	}
}

// oversizedPayload puts a payload that is too large between two good ones.
func oversizedPayload(ctx context.Context, tr *trial) {
	huge := message(safe, 1)
	huge.Payload = bytes.Repeat([]byte("x"), tr.f.Oversized)
	tr.oneIsRefused(ctx, huge, oversizedWithin)
}

// missingDestination publishes to a topic that nobody prepared, between two
// messages to one that exists.
func missingDestination(ctx context.Context, tr *trial) {
	tr.oneIsRefused(ctx, message("nobody-prepared-this", 1), missingWithin)
}

const (
	oversizedWithin = 5 * time.Second // many bytes may have to travel
	missingWithin   = 2 * time.Second
)

// oneIsRefused wants the bad message rejected and its neighbours accepted, in one
// Publish, and the bad one alone rejected too, in time.
func (tr *trial) oneIsRefused(ctx context.Context, bad bus.Message, limit time.Duration) {
	b := tr.ready(ctx)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	tr.accept(ctx, b, message(safe, 0)) // so that connecting is not in the time
	within, cancel := context.WithTimeout(ctx, 2*publishWithin)
	defer cancel()

	good := messages(safe, 2)
	err := tr.ledger.publish(within, b, good[0], bad, good[1])
	tr.class(bad.ID, bus.Outcome(err, 1), "the bad one of three messages", bus.Rejected)
	tr.class(good[0].ID, bus.Outcome(err, 0), "the neighbour before the bad message", bus.Accepted)
	tr.class(good[1].ID, bus.Outcome(err, 2), "the neighbour after the bad message", bus.Accepted)

	p := &pace{}
	for range 2 {
		alone, began := bad, time.Now()
		alone.ID = message(safe, 0).ID
		tr.class(alone.ID, tr.ledger.publish(within, b, alone), "the bad message alone", bus.Rejected)
		p.lap(began)
	}
	tr.within(p, limit, "the publish of a refused message")
	tr.accept(ctx, b, message(safe, 3))
	tr.conclude(ctx, b, safe, terms{}, mailer)
}
