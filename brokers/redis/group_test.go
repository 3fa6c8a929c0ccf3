package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
)

// A consumer that ends hands back what it read ahead: at once, not after ClaimIdle.
func TestWhatIsNotHandledGoesBackAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{ClaimIdle: time.Minute})
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
		kit.Eventually(t, 2*time.Second, "a backlog of 3", func() bool {
			n, err := b.Backlog(t.Context(), "safe", "g")
			return err == nil && n == 3
		})
		first.End(t)
		second := subscribe(t, b, "g", nil)
		kit.Eventually(t, 10*time.Second, "the other 3", func() bool { return len(second.All()) == 3 })
		noBacklog(t, b, "g")
	})
}

func TestADeadConsumersEntriesAreClaimedAndASlowOnesAreNot(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url, MaxUnacked: 4}, Options{ClaimIdle: 600 * time.Millisecond})
		prepare(t, b, "g")
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(4)...); err != nil {
			t.Fatal(err)
		}
		// A consumer that reads two and is never heard of again.
		err := b.client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: b.cfg.Name("g"), Consumer: "dead", Streams: []string{b.cfg.Name("safe"), ">"}, Count: 2, Block: -1,
		}).Err()
		if err != nil {
			t.Fatal(err)
		}
		// One that is slow but alive, with the other two in its hands.
		began := make(chan struct{})
		slow := subscribe(t, b, "g", func(n int, _ bus.Message) error {
			if n == 1 {
				close(began)
				time.Sleep(2 * time.Second)
			}
			return nil
		})
		<-began
		quick := subscribe(t, b, "g", nil)
		kit.Eventually(t, 10*time.Second, "4 messages", func() bool { return slow.Distinct()+quick.Distinct() == 4 })
		noBacklog(t, b, "g")
		if n := len(slow.All()) + len(quick.All()); n != 4 {
			t.Errorf("%d deliveries of 4 messages", n)
		}
	})
}

func TestMembersShare(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		slow := func(int, bus.Message) error { time.Sleep(time.Millisecond); return nil }
		one, two := subscribe(t, b, "g", slow), subscribe(t, b, "g", slow)
		for range 10 {
			if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(40)...); err != nil {
				t.Fatal(err)
			}
		}
		kit.Eventually(t, 20*time.Second, "400 messages", func() bool { return one.Distinct()+two.Distinct() == 400 })
		noBacklog(t, b, "g")
		if len(one.All()) == 0 || len(two.All()) == 0 || len(one.All())+len(two.All()) != 400 {
			t.Errorf("one %d, two %d", len(one.All()), len(two.All()))
		}
		one.End(t)
		two.End(t)
		left, err := b.client.XInfoConsumers(t.Context(), b.cfg.Name("safe"), b.cfg.Name("g")).Result()
		if err != nil || len(left) != 0 {
			t.Errorf("consumers left behind: %v, %v", left, err)
		}
	})
}

func TestASubscriptionHealsALostStream(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		in := subscribe(t, b, "g", nil) // there is nothing yet
		for i := 1; i <= 3; i++ {
			kit.Eventually(t, 5*time.Second, "a stream", func() bool {
				return b.Publish(kit.Within(t, 5*time.Second), kit.Message(i)) == nil
			})
			kit.Eventually(t, 5*time.Second, "the message", func() bool { return in.Distinct() == i })
			if err := b.client.Del(t.Context(), b.cfg.Name("safe")).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
