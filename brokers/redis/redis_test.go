package redis

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"outboxplayground/core/bus"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func noBacklog(t *testing.T, b *Bus, group string) {
	t.Helper()
	eventually(t, 5*time.Second, "no backlog", func() bool {
		n, err := b.Backlog(t.Context(), "safe", group)
		return err == nil && n == 0
	})
}

func TestEverythingPublishedArrivesInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g", "h")
		sent := msgs(500)
		if err := b.Publish(within(t, 5*time.Second), sent...); err != nil {
			t.Fatal(err)
		}
		for _, group := range []string{"g", "h"} {
			in := subscribe(t, b, group, nil)
			eventually(t, 10*time.Second, "500 messages", func() bool { return len(in.messages()) == 500 })
			if got := in.messages(); !reflect.DeepEqual(got, sent) {
				t.Errorf("group %s: not what was sent, or not in that order", group)
			}
			noBacklog(t, b, group)
		}
	})
}

func TestBytesAndHeadersTravel(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		want := []bus.Message{
			{ID: uuid.NewString(), Topic: "safe", Key: "鍵", Payload: []byte(`{"n":1000000000000001}`), Headers: map[string]string{"a": "ü", "empty": "", "id": "not the id"}},
			{ID: uuid.NewString(), Topic: "safe", Payload: []byte{}},
			{ID: uuid.NewString(), Topic: "safe", Payload: all},
		}
		if err := b.Publish(within(t, 5*time.Second), want...); err != nil {
			t.Fatal(err)
		}
		in := subscribe(t, b, "g", nil)
		eventually(t, 10*time.Second, "3 messages", func() bool { return len(in.messages()) == 3 })
		if got := in.messages(); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

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

func TestABacklogOfManyPages(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		for want := int64(0); want <= 2500; want += 2500 {
			n, err := b.Backlog(t.Context(), "safe", "g")
			if err != nil || n != want {
				t.Errorf("backlog %d, %v; want %d", n, err, want)
			}
			if want == 0 {
				if err := b.Publish(within(t, 5*time.Second), msgs(2500)...); err != nil {
					t.Fatal(err)
				}
			}
		}
		in := subscribe(t, b, "g", func(n int, _ bus.Message) error {
			if n > 100 {
				return errors.New("enough")
			}
			return nil
		})
		eventually(t, 10*time.Second, "100 handled", func() bool { return len(in.messages()) == 100 })
		eventually(t, 5*time.Second, "a backlog of 2400", func() bool {
			n, err := b.Backlog(t.Context(), "safe", "g")
			return err == nil && n == 2400
		})
		n, err := b.Backlog(t.Context(), "safe", "nobody")
		if err != nil || n != 2500 {
			t.Errorf("of a group that does not exist: %d, %v", n, err)
		}
		if _, err := b.Backlog(t.Context(), "none", "g"); !errors.Is(err, bus.ErrRejected) {
			t.Errorf("of a stream that does not exist: %v", err)
		}
	})
}

func TestOversizedDoesNotHurtItsNeighbours(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{MaxBytes: 1 << 20})
		prepare(t, b, "g")
		batch := msgs(5)
		batch[2].Payload = make([]byte, 1<<20)
		err := b.Publish(within(t, 10*time.Second), batch...)
		for i := range batch {
			want := bus.Accepted
			if i == 2 {
				want = bus.Rejected
			}
			wantClass(t, bus.Outcome(err, i), want)
		}
	})
}

func TestAMissingStreamIsRejected(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		wantClass(t, b.Publish(within(t, 5*time.Second), msg(1)), bus.Rejected)
		if err := b.client.Set(t.Context(), b.cfg.Name("text"), "x", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		wantClass(t, b.Publish(within(t, 5*time.Second), bus.Message{ID: "1", Topic: "text"}), bus.Rejected)
		prepare(t, b)
		prepare(t, b, "g")
		prepare(t, b, "g")
		batch := msgs(3)
		batch[1].Topic = "missing"
		err := b.Publish(within(t, 5*time.Second), batch...)
		for i, want := range []bus.Class{bus.Accepted, bus.Rejected, bus.Accepted} {
			wantClass(t, bus.Outcome(err, i), want)
		}
		for range 2 {
			if err := b.Remove(within(t, 5*time.Second), "safe", "g"); err != nil {
				t.Fatal(err)
			}
		}
		wantClass(t, b.Publish(within(t, 5*time.Second), msg(1)), bus.Rejected)
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

func TestServerErrorsThatStoreNothing(t *testing.T) {
	m := double(t)
	b := open(t, bus.Config{URL: "redis://" + m.Addr()}, Options{})
	prepare(t, b, "g")
	for answer, want := range map[string]bus.Class{
		"OOM command not allowed when used memory > 'maxmemory'.":    bus.Unavailable,
		"LOADING Redis is loading the dataset in memory":             bus.Unavailable,
		"READONLY You can't write against a read only replica.":      bus.Unavailable,
		"MISCONF Redis is configured to save RDB snapshots, but ...": bus.Unavailable,
		"MASTERDOWN Link with MASTER is down":                        bus.Unavailable,
		"NOPERM User x has no permissions to run the 'xadd' command": bus.Rejected,
		"ERR something that this driver has never heard of":          bus.Ambiguous,
	} {
		m.SetError(answer)
		wantClass(t, b.Publish(within(t, 5*time.Second), msg(1)), want)
		m.SetError("")
	}
}

func TestACutConnectionAndARefusedOne(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var net cutter
		b := open(t, bus.Config{URL: url, Dial: net.dial}, Options{})
		prepare(t, b, "g")
		in := subscribe(t, b, "g", nil)
		if err := b.Publish(within(t, 5*time.Second), msg(0)); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "the first message", func() bool { return in.distinct() == 1 })
		net.cut(true)
		for range 30 { // more often than the pool has places
			begin := time.Now()
			wantClass(t, b.Publish(within(t, 5*time.Second), msgs(50)...), bus.Unavailable)
			if took := time.Since(begin); took > 500*time.Millisecond {
				t.Errorf("refused after %v", took)
			}
		}
		net.cut(false)
		if err := b.Publish(within(t, 5*time.Second), msg(1)); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		eventually(t, 15*time.Second, "the second message", func() bool { return in.distinct() == 2 })
	})
}

func TestNobodyThere(t *testing.T) {
	hole := blackHole(t)
	for url, limit := range map[string]time.Duration{"127.0.0.1:1": 200 * time.Millisecond, hole: 2500 * time.Millisecond} {
		begin := time.Now()
		b := open(t, bus.Config{URL: "redis://u:secret@" + url}, Options{})
		if took := time.Since(begin); took > 2200*time.Millisecond {
			t.Errorf("%s: Open took %v", url, took)
		}
		begin = time.Now()
		err := b.Publish(within(t, 5*time.Second), msgs(3)...)
		wantClass(t, err, bus.Unavailable)
		if took := time.Since(begin); took > limit {
			t.Errorf("%s: Publish took %v", url, took)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Error("the password is in the error")
		}
		begin = time.Now()
		wantClass(t, b.Publish(within(t, 100*time.Millisecond), msgs(3)...), bus.Unavailable)
		if took := time.Since(begin); took > 300*time.Millisecond {
			t.Errorf("%s: the deadline was overrun: %v", url, took)
		}
		if err := b.Prepare(within(t, 300*time.Millisecond), "safe"); err == nil {
			t.Error("Prepare succeeded without a server")
		}
		b.Close()
	}
}

// blackHole accepts and never answers.
func blackHole(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestFiftyPublishersAndAClose(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		in := subscribe(t, b, "g", nil)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 10 {
					if err := b.Publish(context.Background(), msgs(3)...); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		eventually(t, 30*time.Second, "1500 messages", func() bool { return in.distinct() == 1500 })

		classes := make(chan bus.Class, 100_000)
		for range 10 {
			wg.Go(func() {
				for {
					err := b.Publish(context.Background(), msg(0))
					classes <- bus.Classify(err)
					if errors.Is(err, bus.ErrUnavailable) {
						return
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		begin := time.Now()
		b.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("closing took %v", took)
		}
		close(classes)
		for c := range classes {
			if c != bus.Accepted && c != bus.Unavailable {
				t.Errorf("a publish during Close: %v", c)
			}
		}
	})
}

func TestBadConfiguration(t *testing.T) {
	for _, url := range []string{"", "host:6379", "http://x", "redis://user:secret@host:port:bad", "redis://:secret@h/notanumber"} {
		_, err := Open(t.Context(), bus.Config{URL: url}, Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
