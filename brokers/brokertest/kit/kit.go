// Package kit is what the drivers' own tests have in common: messages, a
// subscription that keeps what it got, and waiting for something to come true. The
// suite in brokertest does not use it.
package kit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"outboxplayground/core/bus"
)

// Topic is where everything here is published and received.
const Topic = "safe"

// Within is a context that ends after d, or after the test and its clean-ups so far:
// unlike t.Context() it serves a clean-up too.
func Within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Message is a new message with its number as payload and one of five keys.
func Message(i int) bus.Message {
	return bus.Message{ID: uuid.NewString(), Topic: Topic, Key: fmt.Sprint("u", i%5), Payload: fmt.Append(nil, i)}
}

// Messages are the messages 0 to n-1.
func Messages(n int) []bus.Message {
	list := make([]bus.Message, n)
	for i := range list {
		list[i] = Message(i)
	}
	return list
}

// Receiver is a subscription that keeps what it got. Safe for concurrent use.
type Receiver struct {
	stop context.CancelFunc
	over chan error

	mu  sync.Mutex
	got []bus.Message
}

// endLimit is how long a subscription may take to end.
const endLimit = 5 * time.Second

// Receive subscribes until End, or the end of the test. What h answers with an error
// is not kept; a nil h keeps everything.
func Receive(t *testing.T, b bus.Bus, group string, h bus.Handler) *Receiver {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Receiver{stop: cancel, over: make(chan error, 1)}
	go func() {
		r.over <- b.Subscribe(ctx, Topic, group, func(ctx context.Context, m bus.Message) error {
			if h != nil {
				if err := h(ctx, m); err != nil {
					return err
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.got = append(r.got, m)
			return nil
		})
	}()
	t.Cleanup(func() { r.End(t) })
	return r
}

// Stop asks the subscription to end and does not wait.
func (r *Receiver) Stop() { r.stop() }

// End ends the subscription and checks that it ends in time and without an error.
func (r *Receiver) End(t *testing.T) {
	r.stop()
	select {
	case err := <-r.over:
		if err != nil {
			t.Error("Subscribe:", err)
		}
		r.over <- nil // for the next one who asks
	case <-time.After(endLimit):
		t.Errorf("Subscribe did not return within %v of the end of its context", endLimit)
	}
}

// All is what has come, in its order.
func (r *Receiver) All() []bus.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]bus.Message(nil), r.got...)
}

// Distinct counts the events that have come.
func (r *Receiver) Distinct() int {
	ids := map[string]bool{}
	for _, m := range r.All() {
		ids[m.ID] = true
	}
	return len(ids)
}

// Counted is a handler that knows how often it was called, from 1.
func Counted(h func(call int, m bus.Message) error) bus.Handler {
	call := 0 // a subscription handles one message at a time
	return func(_ context.Context, m bus.Message) error { call++; return h(call, m) }
}

// Eventually fails the test unless what comes true within d.
func Eventually(t *testing.T, d time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not within %v: %s", d, what)
}

// Classes names the class of each of n outcomes.
func Classes(err error, n int) string {
	var list []string
	for i := range n {
		list = append(list, bus.Classify(bus.Outcome(err, i)).String())
	}
	return strings.Join(list, " ")
}

// WantClass checks the class of an outcome.
func WantClass(t *testing.T, err error, want bus.Class) {
	t.Helper()
	if got := bus.Classify(err); got != want {
		t.Errorf("class %v, want %v (error: %v)", got, want, err)
	}
}
