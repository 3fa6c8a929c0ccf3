package kafka

import (
	"errors"
	"testing"
	"time"

	"outboxplayground/core/bus"
)

func TestAHandlerErrorRedeliversInPlace(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		in := subscribe(t, b, "g", func(n int, m bus.Message) error {
			if n <= 3 {
				return errors.New("not now")
			}
			return nil
		})
		if err := b.Publish(within(t, 5*time.Second), msgs(5)...); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "5 messages", func() bool { return len(in.messages()) == 5 })
		if got := string(in.messages()[0].Payload); got != "0" {
			t.Errorf("first handled %q, want 0", got)
		}
	})
}

func TestUnacknowledgedMessagesComeAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		if err := b.Publish(within(t, 5*time.Second), msgs(5)...); err != nil {
			t.Fatal(err)
		}
		first := subscribe(t, b, "g", func(n int, m bus.Message) error {
			if n > 2 {
				return errors.New("stuck")
			}
			return nil
		})
		eventually(t, 10*time.Second, "2 handled", func() bool { return len(first.messages()) == 2 })
		if n, err := b.Backlog(t.Context(), "safe", "g"); err != nil || n > 4 || n < 3 {
			t.Errorf("backlog %d, %v", n, err)
		}
		first.end(t)
		second := subscribe(t, b, "g", nil)
		eventually(t, 10*time.Second, "the other 3", func() bool { return len(second.messages()) == 3 })
	})
}

func TestMembersShareAndHandOverWithoutRepeats(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{Partitions: 4})
		prepare(t, b, "g")
		slow := func(int, bus.Message) error { time.Sleep(5 * time.Millisecond); return nil }
		one := subscribe(t, b, "g", slow)
		var two *inbox
		for i := range 10 {
			if err := b.Publish(within(t, 5*time.Second), msgs(40)...); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				two = subscribe(t, b, "g", slow)
			}
		}
		other := subscribe(t, b, "g2", nil)
		total := func() int { return len(one.messages()) + len(two.messages()) }
		eventually(t, 20*time.Second, "400 messages", func() bool { return one.distinct()+two.distinct() >= 400 })
		eventually(t, 20*time.Second, "no backlog", func() bool {
			n, err := b.Backlog(t.Context(), "safe", "g")
			return err == nil && n == 0
		})
		if total() != 400 || len(two.messages()) == 0 {
			t.Errorf("one %d, two %d", len(one.messages()), len(two.messages()))
		}
		eventually(t, 20*time.Second, "400 in the other group", func() bool { return len(other.messages()) == 400 })
	})
}

func TestASubscriptionWaitsForItsTopic(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		in := subscribe(t, b, "g", nil)
		time.Sleep(300 * time.Millisecond)
		for range 2 { // the second time the topic is made anew under a living subscription
			prepare(t, b, "g")
			want := len(in.messages()) + 3
			if err := b.Publish(within(t, 5*time.Second), msgs(3)...); err != nil {
				t.Fatal(err)
			}
			eventually(t, 20*time.Second, "3 messages", func() bool { return len(in.messages()) == want })
			if err := b.Remove(within(t, 10*time.Second), "safe"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
