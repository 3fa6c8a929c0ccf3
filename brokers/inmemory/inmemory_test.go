package inmemory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"outboxplayground/brokers/inmemory"
	"outboxplayground/core/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o inmemory.Options) *inmemory.Bus {
	t.Helper()
	b, err := inmemory.Open(t.Context(), bus.Config{Prefix: "ch03"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if err := b.Prepare(t.Context(), "safe", "mailer"); err != nil {
		t.Fatal(err)
	}
	return b
}

func msg(n int) bus.Message {
	return bus.Message{ID: fmt.Sprint(n), Topic: "safe", Payload: []byte(`{}`)}
}

// receive subscribes until n deliveries have come and returns their ids.
func receive(t *testing.T, b *inmemory.Bus, n int, act bus.Handler) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var ids []string
	err := b.Subscribe(ctx, "safe", "mailer", func(ctx context.Context, m bus.Message) error {
		ids = append(ids, m.ID)
		if len(ids) == n {
			cancel()
		}
		return act(ctx, m)
	})
	if err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	return ids
}

func accept(context.Context, bus.Message) error { return nil }

// TestFullQueue: a full queue takes nothing of a message, in any group, and takes
// messages again when some are acknowledged.
func TestFullQueue(t *testing.T) {
	b := open(t, inmemory.Options{Capacity: 2})
	_ = b.Prepare(t.Context(), "safe", "other")
	err := b.Publish(t.Context(), msg(1), msg(2), msg(3))
	want := []bus.Class{bus.Accepted, bus.Accepted, bus.Unavailable}
	for i, class := range want {
		if got := bus.Classify(bus.Outcome(err, i)); got != class {
			t.Errorf("message %d: want %s, got %s", i+1, class, got)
		}
	}
	receive(t, b, 2, accept)
	// mailer has room again, other is still full: none of the two may get it.
	if err := b.Publish(t.Context(), msg(4)); bus.Classify(err) != bus.Unavailable {
		t.Fatalf("want unavailable while one group is full, got %v", err)
	}
	if n, _ := b.Backlog(t.Context(), "safe", "mailer"); n != 0 {
		t.Errorf("a refused message was kept for mailer: backlog %d", n)
	}
	if n, _ := b.Backlog(t.Context(), "safe", "other"); n != 2 {
		t.Errorf("other: want backlog 2, got %d", n)
	}
}

// TestTopicWithoutGroup: accepting a message that no queue takes would lose it.
func TestTopicWithoutGroup(t *testing.T) {
	b := open(t, inmemory.Options{})
	if err := b.Prepare(t.Context(), "empty"); err != nil {
		t.Fatal(err)
	}
	m := msg(1)
	m.Topic = "empty"
	if err := b.Publish(t.Context(), m); !errors.Is(err, bus.ErrRejected) {
		t.Errorf("want rejected, got %v", err)
	}
}

// TestFailedMessageIsOvertaken: the pause of a failed message holds up no other.
func TestFailedMessageIsOvertaken(t *testing.T) {
	const pause = 30 * time.Millisecond
	b := open(t, inmemory.Options{RedeliveryDelay: pause})
	_ = b.Publish(t.Context(), msg(1), msg(2), msg(3))
	failed := time.Time{}
	var waited time.Duration
	ids := receive(t, b, 4, func(_ context.Context, m bus.Message) error {
		if m.ID == "1" && failed.IsZero() {
			failed = time.Now()
			return errors.New("not yet")
		}
		waited = time.Since(failed)
		return nil
	})
	if want := []string{"1", "2", "3", "1"}; !slices.Equal(ids, want) {
		t.Errorf("want %v, got %v", want, ids)
	}
	if waited < pause {
		t.Errorf("the failed message came again after %v, want at least %v", waited, pause)
	}
}

// TestCancelledMessageGoesToTheFront: an error after cancellation is no failure.
func TestCancelledMessageGoesToTheFront(t *testing.T) {
	b := open(t, inmemory.Options{RedeliveryDelay: time.Hour})
	_ = b.Publish(t.Context(), msg(1), msg(2))
	receive(t, b, 1, func(ctx context.Context, _ bus.Message) error { return ctx.Err() })
	if n, _ := b.Backlog(t.Context(), "safe", "mailer"); n != 2 {
		t.Errorf("want backlog 2, got %d", n)
	}
	if ids := receive(t, b, 2, accept); !slices.Equal(ids, []string{"1", "2"}) {
		t.Errorf("want 1 before 2, got %v", ids)
	}
}

// TestCloseEndsSubscriptions, those that wait and those in a handler.
func TestCloseEndsSubscriptions(t *testing.T) {
	b := open(t, inmemory.Options{})
	_ = b.Publish(t.Context(), msg(1))
	entered, errs := make(chan struct{}), make(chan error, 2)
	var members sync.WaitGroup
	for range 2 {
		members.Go(func() {
			errs <- b.Subscribe(t.Context(), "safe", "mailer", func(ctx context.Context, _ bus.Message) error {
				close(entered)
				<-ctx.Done()
				return ctx.Err()
			})
		})
	}
	<-entered
	_ = b.Close()
	members.Wait()
	for range 2 {
		if err := <-errs; !errors.Is(err, bus.ErrUnavailable) {
			t.Errorf("Subscribe on a closed bus: want unavailable, got %v", err)
		}
	}
}

// TestRemoveUnderASubscription: it goes on with the topic that is made afterwards.
func TestRemoveUnderASubscription(t *testing.T) {
	b := open(t, inmemory.Options{})
	_ = b.Publish(t.Context(), msg(1))
	ids := receive(t, b, 2, func(ctx context.Context, m bus.Message) error {
		if m.ID != "1" {
			return nil
		}
		return errors.Join(b.Remove(ctx, "safe", "mailer"), b.Prepare(ctx, "safe", "mailer"), b.Publish(ctx, msg(2)))
	})
	if !slices.Equal(ids, []string{"1", "2"}) {
		t.Errorf("want 1 and 2, got %v", ids)
	}
}

// TestTwoBusesNeverMeet: each Open is a broker of its own, prefix or not.
func TestTwoBusesNeverMeet(t *testing.T) {
	one, two := open(t, inmemory.Options{}), open(t, inmemory.Options{})
	_ = one.Publish(t.Context(), msg(1))
	if n, _ := two.Backlog(t.Context(), "safe", "mailer"); n != 0 {
		t.Errorf("the message of one bus is on another: backlog %d", n)
	}
}
