package kafka

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestEverythingPublishedArrives(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{Partitions: 3})
		prepare(t, b, "g")
		sent := kit.Messages(500)
		if err := b.Publish(kit.Within(t, 5*time.Second), sent...); err != nil {
			t.Fatal(err)
		}
		in := subscribe(t, b, "g", nil)
		kit.Eventually(t, 10*time.Second, "500 messages", func() bool { return len(in.All()) == 500 })
		last := map[string]int{}
		order := map[string]int{}
		for i, m := range sent {
			order[m.ID] = i + 1
		}
		for _, m := range in.All() {
			if order[m.ID] < last[m.Key] {
				t.Fatalf("key %s: %d came after %d", m.Key, order[m.ID], last[m.Key])
			}
			last[m.Key] = order[m.ID]
		}
		kit.Eventually(t, 5*time.Second, "no backlog", func() bool {
			n, err := b.Backlog(t.Context(), "safe", "g")
			return err == nil && n == 0
		})
	})
}

// kafka-go's own Writer holds a message back for a second, in case more come.
func TestOneMessageDoesNotWaitForCompany(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		best := time.Hour
		for i := range 5 { // the best of five: the machine may be busy
			begin := time.Now()
			if err := b.Publish(kit.Within(t, 5*time.Second), kit.Message(i)); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(begin))
		}
		if best > 500*time.Millisecond {
			t.Errorf("one message takes %v", best)
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
			{ID: uuid.NewString(), Topic: "safe", Key: "鍵", Payload: []byte(`{"n":1000000000000001}`), Headers: map[string]string{"a": "ü", "empty": ""}},
			{ID: uuid.NewString(), Topic: "safe", Payload: []byte{}},
			{ID: uuid.NewString(), Topic: "safe", Payload: all},
		}
		if err := b.Publish(kit.Within(t, 5*time.Second), want...); err != nil {
			t.Fatal(err)
		}
		in := subscribe(t, b, "g", nil)
		kit.Eventually(t, 10*time.Second, "3 messages", func() bool { return len(in.All()) == 3 })
		if got := in.All(); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestOversizedDoesNotHurtItsNeighbours(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		// The second bus lets through what the broker refuses (its limit is 1,048,588).
		for _, limit := range []int{0, 20 << 20} {
			b := open(t, bus.Config{URL: url}, Options{MaxBytes: limit})
			prepare(t, b, "g")
			batch := kit.Messages(5)
			batch[2].Payload = make([]byte, 2<<20)
			err := b.Publish(kit.Within(t, 10*time.Second), batch...)
			for i := range batch {
				want := bus.Accepted
				if i == 2 {
					want = bus.Rejected
				}
				kit.WantClass(t, bus.Outcome(err, i), want)
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
		many := kit.Messages(300)
		for i := range many {
			many[i].Payload = make([]byte, 10_000) // three requests' worth
		}
		if err := b.Publish(kit.Within(t, 10*time.Second), append(many, m)...); err != nil {
			t.Fatal(err)
		}
		in := subscribe(t, b, "g", nil)
		kit.Eventually(t, 20*time.Second, "301 messages", func() bool { return len(in.All()) == 301 })
	})
}

func TestUnknownTopicIsRejected(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		begin := time.Now()
		err := b.Publish(kit.Within(t, 5*time.Second), kit.Message(1))
		kit.WantClass(t, err, bus.Rejected)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("took %v", took)
		}
		prepare(t, b)
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Message(1)); err != nil {
			t.Errorf("after Prepare: %v", err)
		}
		other := open(t, bus.Config{URL: url, Prefix: b.cfg.Prefix}, Options{})
		if err := b.Remove(kit.Within(t, 10*time.Second), "safe"); err != nil {
			t.Fatal(err)
		}
		kit.WantClass(t, b.Publish(kit.Within(t, 5*time.Second), kit.Message(1)), bus.Rejected)
		kit.WantClass(t, other.Publish(kit.Within(t, 5*time.Second), kit.Message(1)), bus.Rejected)
		if err := b.Remove(kit.Within(t, 10*time.Second), "safe", "never"); err != nil {
			t.Errorf("removing what is not there: %v", err)
		}
	})
}

func TestThePartitionDependsOnTheKeyAlone(t *testing.T) {
	ids := []int{0, 1, 2, 3}
	// What org.apache.kafka.clients.producer's partitioner gives for these keys:
	// toPositive(murmur2("21")) with murmur2("21") = -973932308, as its own test has it.
	hash := int32(-973932308)
	if got, want := partition(bus.Message{Key: "21"}, ids), int(hash&math.MaxInt32)%4; got != want {
		t.Errorf("partition %d, want %d", got, want)
	}
	one, other := bus.Message{ID: "a", Payload: []byte("1")}, bus.Message{ID: "a", Payload: []byte("2")}
	if partition(one, ids) != partition(other, ids) {
		t.Error("two copies of an event go different ways")
	}
}
