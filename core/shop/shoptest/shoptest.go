// Package shoptest has what the chapters' own tests share: orders, and a double of
// a bus that does as it is told. The double proves what a chapter does with an
// answer; what brokers really answer is judged elsewhere, on real ones.
package shoptest

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"outboxplayground/core/bus"
	"outboxplayground/core/shop"
)

// Order returns an order with a new event id.
func Order(busName string) shop.Order {
	return shop.Order{EventID: uuid.NewString(), UserID: "u1", Items: []string{"A", "B"}, Bus: busName}
}

// Bus is a double: it keeps what it accepts and fails when Fail says so. Safe for
// concurrent use.
type Bus struct {
	// Fail, when set, decides the outcome of every message.
	Fail func(m bus.Message) error

	mu       sync.Mutex
	accepted []bus.Message
}

var _ bus.Bus = (*Bus)(nil)

// Publish accepts each message that Fail has nothing against.
func (b *Bus) Publish(_ context.Context, msgs ...bus.Message) error {
	outcomes := make([]error, len(msgs))
	for i, m := range msgs {
		if b.Fail != nil {
			outcomes[i] = b.Fail(m)
		}
		if outcomes[i] == nil {
			b.mu.Lock()
			b.accepted = append(b.accepted, m)
			b.mu.Unlock()
		}
	}
	return bus.Join(outcomes)
}

// Accepted returns what was accepted so far, in order.
func (b *Bus) Accepted() []bus.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]bus.Message(nil), b.accepted...)
}

// Subscribe only waits: the double delivers nothing.
func (b *Bus) Subscribe(ctx context.Context, _, _ string, _ bus.Handler) error {
	<-ctx.Done()
	return nil
}

// Close does nothing.
func (b *Bus) Close() error { return nil }
