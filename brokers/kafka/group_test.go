package kafka

import (
	"errors"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest/kit"
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
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(5)...); err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, 10*time.Second, "5 messages", func() bool { return len(in.All()) == 5 })
		if got := string(in.All()[0].Payload); got != "0" {
			t.Errorf("first handled %q, want 0", got)
		}
	})
}

func TestUnacknowledgedMessagesComeAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(5)...); err != nil {
			t.Fatal(err)
		}
		first := subscribe(t, b, "g", func(n int, m bus.Message) error {
			if n > 2 {
				return errors.New("stuck")
			}
			return nil
		})
		kit.Eventually(t, 10*time.Second, "2 handled", func() bool { return len(first.All()) == 2 })
		kit.Eventually(t, 10*time.Second, "a backlog of 3 or 4", func() bool { // it commits while it works
			n, err := b.Backlog(t.Context(), "safe", "g")
			return err == nil && (n == 3 || n == 4)
		})
		first.End(t)
		second := subscribe(t, b, "g", nil)
		kit.Eventually(t, 10*time.Second, "the other 3", func() bool { return len(second.All()) == 3 })
	})
}

func TestMembersShareAndHandOverWithoutRepeats(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{Partitions: 4})
		prepare(t, b, "g")
		slow := func(int, bus.Message) error { time.Sleep(5 * time.Millisecond); return nil }
		one := subscribe(t, b, "g", slow)
		var two *kit.Receiver
		for i := range 10 {
			if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(40)...); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				two = subscribe(t, b, "g", slow)
			}
		}
		other := subscribe(t, b, "g2", nil)
		total := func() int { return len(one.All()) + len(two.All()) }
		kit.Eventually(t, 20*time.Second, "400 messages", func() bool { return one.Distinct()+two.Distinct() >= 400 })
		kit.Eventually(t, 20*time.Second, "no backlog", func() bool {
			n, err := b.Backlog(t.Context(), "safe", "g")
			return err == nil && n == 0
		})
		if total() != 400 || len(two.All()) == 0 {
			t.Errorf("one %d, two %d", len(one.All()), len(two.All()))
		}
		kit.Eventually(t, 20*time.Second, "400 in the other group", func() bool { return len(other.All()) == 400 })
	})
}

func TestASubscriptionWaitsForItsTopic(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		in := subscribe(t, b, "g", nil)
		time.Sleep(300 * time.Millisecond)
		for range 2 { // the second time the topic is made anew under a living subscription
			prepare(t, b, "g")
			want := len(in.All()) + 3
			if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(3)...); err != nil {
				t.Fatal(err)
			}
			kit.Eventually(t, 20*time.Second, "3 messages", func() bool { return len(in.All()) == want })
			if err := b.Remove(kit.Within(t, 10*time.Second), "safe"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A member that was killed cannot leave, and its session lasts six seconds. Who
// removes the group does not wait for that: the clean-up of a run that was broken off
// has three.
func TestAGroupWithADeadMemberIsRemovedAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var net kit.Cutter
		dead := open(t, bus.Config{URL: url, Dial: net.Dial}, Options{})
		prepare(t, dead, "g")
		in := subscribe(t, dead, "g", nil)
		if err := dead.Publish(kit.Within(t, 5*time.Second), kit.Message(0)); err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, 10*time.Second, "a message, and with it the membership", func() bool { return in.Distinct() == 1 })
		net.Cut(true)
		heir := open(t, bus.Config{URL: url, Prefix: dead.cfg.Prefix}, Options{})
		if err := heir.Remove(kit.Within(t, 3*time.Second), "safe", "g"); err != nil {
			t.Error(err)
		}
		in.End(t)
		net.Cut(false) // for the cleaning up
	})
}
