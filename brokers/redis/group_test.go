package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"outboxplayground/core/bus"
)

// A consumer that ends hands back what it read ahead: at once, not after ClaimIdle.
func TestWhatIsNotHandledGoesBackAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{ClaimIdle: time.Minute})
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
		eventually(t, 2*time.Second, "a backlog of 3", func() bool {
			n, err := b.Backlog(t.Context(), "safe", "g")
			return err == nil && n == 3
		})
		first.end(t)
		second := subscribe(t, b, "g", nil)
		eventually(t, 10*time.Second, "the other 3", func() bool { return len(second.messages()) == 3 })
		noBacklog(t, b, "g")
	})
}

func TestADeadConsumersEntriesAreClaimedAndASlowOnesAreNot(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url, MaxUnacked: 4}, Options{ClaimIdle: 600 * time.Millisecond})
		prepare(t, b, "g")
		if err := b.Publish(within(t, 5*time.Second), msgs(4)...); err != nil {
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
		slow := subscribe(t, b, "g", func(n int, _ bus.Message) error {
			if n == 1 {
				time.Sleep(2 * time.Second)
			}
			return nil
		})
		eventually(t, 5*time.Second, "the slow one to begin", func() bool { slow.mu.Lock(); defer slow.mu.Unlock(); return true })
		quick := subscribe(t, b, "g", nil)
		eventually(t, 10*time.Second, "4 messages", func() bool { return slow.distinct()+quick.distinct() == 4 })
		noBacklog(t, b, "g")
		if n := len(slow.messages()) + len(quick.messages()); n != 4 {
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
			if err := b.Publish(within(t, 5*time.Second), msgs(40)...); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, 20*time.Second, "400 messages", func() bool { return one.distinct()+two.distinct() == 400 })
		noBacklog(t, b, "g")
		if len(one.messages()) == 0 || len(two.messages()) == 0 || len(one.messages())+len(two.messages()) != 400 {
			t.Errorf("one %d, two %d", len(one.messages()), len(two.messages()))
		}
		one.end(t)
		two.end(t)
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
			eventually(t, 5*time.Second, "a stream", func() bool {
				return b.Publish(within(t, 5*time.Second), msg(i)) == nil
			})
			eventually(t, 5*time.Second, "the message", func() bool { return in.distinct() == i })
			if err := b.client.Del(t.Context(), b.cfg.Name("safe")).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
