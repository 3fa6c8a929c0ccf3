package kit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"outboxplayground/core/bus"
)

// closeLimit is how long a Close with publishes under way may take.
const closeLimit = 3 * time.Second

// CloseWhilePublishing closes the bus, twice, under ten publishers that go on until
// they are told that it is closed.
func CloseWhilePublishing(t *testing.T, b bus.Bus) {
	var wg sync.WaitGroup
	started := make(chan struct{}, 10)
	for range 10 {
		wg.Go(func() {
			for told := false; !told; {
				err := b.Publish(Within(t, 5*time.Second), Messages(10)...)
				select {
				case started <- struct{}{}:
				default:
				}
				told = bus.Classify(err) == bus.Unavailable
				for i := range 10 {
					if bus.Classify(bus.Outcome(err, i)) == bus.Rejected {
						t.Error("a publish during Close:", err)
					}
				}
			}
		})
	}
	<-started
	begin := time.Now()
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if took := time.Since(begin); took > closeLimit {
		t.Errorf("closing took %v", took)
	}
	if err := b.Publish(Within(t, time.Second), Messages(1)...); !errors.Is(err, bus.ErrUnavailable) {
		t.Error(err)
	}
	if err := b.Subscribe(Within(t, 5*time.Second), Topic, "mail", nil); !errors.Is(err, bus.ErrUnavailable) {
		t.Error(err)
	}
}

// FiftyPublishers publish ten times each, and every message arrives.
func FiftyPublishers(t *testing.T, b bus.Bus, group string) {
	in := Receive(t, b, group, nil)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 10 {
				if err := b.Publish(context.Background(), Messages(3)...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	Eventually(t, 30*time.Second, "1500 messages", func() bool { return in.Distinct() == 1500 })
	in.End(t)
}
