package kafka

import (
	"context"
	"errors"
	"math"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"outboxplayground/core/bus"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestEverythingPublishedArrives(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{Partitions: 3})
		prepare(t, b, "g")
		sent := msgs(500)
		if err := b.Publish(within(t, 5*time.Second), sent...); err != nil {
			t.Fatal(err)
		}
		in := subscribe(t, b, "g", nil)
		eventually(t, 10*time.Second, "500 messages", func() bool { return len(in.messages()) == 500 })
		last := map[string]int{}
		order := map[string]int{}
		for i, m := range sent {
			order[m.ID] = i + 1
		}
		for _, m := range in.messages() {
			if order[m.ID] < last[m.Key] {
				t.Fatalf("key %s: %d came after %d", m.Key, order[m.ID], last[m.Key])
			}
			last[m.Key] = order[m.ID]
		}
		eventually(t, 5*time.Second, "no backlog", func() bool {
			n, err := b.Backlog(t.Context(), "safe", "g")
			return err == nil && n == 0
		})
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
			{ID: uuid.NewString(), Topic: "safe", Key: "鍵", Payload: []byte(`{"n":1000000000000001}`), Headers: map[string]string{"a": "ü", "empty": ""}},
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

func TestOversizedDoesNotHurtItsNeighbours(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		// The second bus lets through what the broker refuses (its limit is 1,048,588).
		for _, limit := range []int{0, 20 << 20} {
			b := open(t, bus.Config{URL: url}, Options{MaxBytes: limit})
			prepare(t, b, "g")
			batch := msgs(5)
			batch[2].Payload = make([]byte, 2<<20)
			err := b.Publish(within(t, 10*time.Second), batch...)
			for i := range batch {
				want := bus.Accepted
				if i == 2 {
					want = bus.Rejected
				}
				wantClass(t, bus.Outcome(err, i), want)
			}
		}
	})
}

func TestAMessageJustUnderTheLimitIsTaken(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		m := bus.Message{ID: uuid.NewString(), Topic: "safe", Key: "k", Headers: map[string]string{"h": "v"}}
		m.Payload = make([]byte, defaultMaxBytes-batchOverhead-size(m))
		many := msgs(300)
		for i := range many {
			many[i].Payload = make([]byte, 10_000) // three requests' worth
		}
		if err := b.Publish(within(t, 10*time.Second), append(many, m)...); err != nil {
			t.Fatal(err)
		}
		in := subscribe(t, b, "g", nil)
		eventually(t, 20*time.Second, "301 messages", func() bool { return len(in.messages()) == 301 })
	})
}

func TestUnknownTopicIsRejected(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		begin := time.Now()
		err := b.Publish(within(t, 5*time.Second), msg(1))
		wantClass(t, err, bus.Rejected)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("took %v", took)
		}
		prepare(t, b)
		if err := b.Publish(within(t, 5*time.Second), msg(1)); err != nil {
			t.Errorf("after Prepare: %v", err)
		}
		other := open(t, bus.Config{URL: url, Prefix: b.cfg.Prefix}, Options{})
		if err := b.Remove(within(t, 10*time.Second), "safe"); err != nil {
			t.Fatal(err)
		}
		wantClass(t, b.Publish(within(t, 5*time.Second), msg(1)), bus.Rejected)
		wantClass(t, other.Publish(within(t, 5*time.Second), msg(1)), bus.Rejected)
		if err := b.Remove(within(t, 10*time.Second), "safe", "never"); err != nil {
			t.Errorf("removing what is not there: %v", err)
		}
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
		begin := time.Now()
		err := b.Publish(within(t, 5*time.Second), msgs(50)...)
		wantClass(t, err, bus.Unavailable)
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("refused after %v", took)
		}
		net.cut(false)
		if err := b.Publish(within(t, 5*time.Second), msg(1)); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		eventually(t, 15*time.Second, "the second message", func() bool { return in.distinct() == 2 })
		net.cut(false)
		if err := b.Publish(within(t, 5*time.Second), msg(2)); err != nil {
			t.Errorf("after one cut: %v", err)
		}
		eventually(t, 15*time.Second, "the third message", func() bool { return in.distinct() == 3 })
	})
}

func TestNobodyThere(t *testing.T) {
	hole := blackHole(t)
	for url, limit := range map[string]time.Duration{"127.0.0.1:1": 200 * time.Millisecond, hole: 2500 * time.Millisecond} {
		begin := time.Now()
		b := open(t, bus.Config{URL: url}, Options{})
		if took := time.Since(begin); took > 2200*time.Millisecond {
			t.Errorf("%s: Open took %v", url, took)
		}
		begin = time.Now()
		wantClass(t, b.Publish(within(t, 5*time.Second), msgs(3)...), bus.Unavailable)
		if took := time.Since(begin); took > limit {
			t.Errorf("%s: Publish took %v", url, took)
		}
		begin = time.Now()
		wantClass(t, b.Publish(within(t, 100*time.Millisecond), msgs(3)...), bus.Unavailable)
		if took := time.Since(begin); took > 300*time.Millisecond {
			t.Errorf("%s: the deadline was overrun: %v", url, took)
		}
		if err := b.Prepare(within(t, 300*time.Millisecond), "safe"); err == nil {
			t.Error("Prepare succeeded without a broker")
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
		b := open(t, bus.Config{URL: url}, Options{Partitions: 2})
		prepare(t, b, "g")
		in := subscribe(t, b, "g", nil)
		var wg sync.WaitGroup
		var mu sync.Mutex
		accepted := 0
		for range 50 {
			wg.Go(func() {
				for range 10 {
					if err := b.Publish(context.Background(), msgs(3)...); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					accepted += 3
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		eventually(t, 30*time.Second, "1500 messages", func() bool { return in.distinct() == 1500 && accepted == 1500 })

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
	for _, url := range []string{"", " , ", "no-port", "kafka://user:secret@host"} {
		_, err := Open(t.Context(), bus.Config{URL: url}, Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestThePartitionDependsOnTheKeyAlone(t *testing.T) {
	ids := []int{0, 1, 2, 3}
	// What org.apache.kafka.clients.producer's partitioner gives for these keys:
	// toPositive(murmur2("21")) with murmur2("21") = -973932308, as its own test has it.
	hash := int32(-973932308)
	if got, want := partition(bus.Message{Key: "21"}, ids), int(hash&math.MaxInt32)%4; got != want {
		t.Errorf("partition %d, want %d", got, want)
	}
	if partition(bus.Message{ID: "a"}, ids) != partition(bus.Message{ID: "a"}, ids) {
		t.Error("two copies of an event go different ways")
	}
}
