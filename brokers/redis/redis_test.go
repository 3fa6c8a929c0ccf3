package redis

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers/servertest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func noBacklog(t *testing.T, b *Bus, group string) {
	t.Helper()
	kit.Eventually(t, 5*time.Second, "no backlog", func() bool {
		n, err := b.Backlog(t.Context(), "safe", group)
		return err == nil && n == 0
	})
}

func TestEverythingPublishedArrivesInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g", "h")
		sent := kit.Messages(500)
		if err := b.Publish(kit.Within(t, 5*time.Second), sent...); err != nil {
			t.Fatal(err)
		}
		for _, group := range []string{"g", "h"} {
			in := subscribe(t, b, group, nil)
			kit.Eventually(t, 10*time.Second, "500 messages", func() bool { return len(in.All()) == 500 })
			if got := in.All(); !reflect.DeepEqual(got, sent) {
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
				if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(2500)...); err != nil {
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
		kit.Eventually(t, 10*time.Second, "100 handled", func() bool { return len(in.All()) == 100 })
		kit.Eventually(t, 5*time.Second, "a backlog of 2400", func() bool {
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

// A server that has rewritten its append-only file and is started again says that the
// group has read three where it has read five. What XGROUP SETID makes here is the same
// state; nothing waits, whatever the lag says.
func TestABacklogAfterTheServerHasForgottenItsCount(t *testing.T) {
	b := open(t, bus.Config{URL: servertest.URL(t, "redis")}, Options{})
	prepare(t, b, "g")
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(5)...); err != nil {
		t.Fatal(err)
	}
	in := subscribe(t, b, "g", nil)
	kit.Eventually(t, 10*time.Second, "5 handled", func() bool { return len(in.All()) == 5 })
	stream, group := b.cfg.Name("safe"), b.cfg.Name("g")
	at := func() goredis.XInfoGroup {
		groups, err := b.client.XInfoGroups(t.Context(), stream).Result()
		if err != nil || len(groups) != 1 {
			t.Fatal(groups, err)
		}
		return groups[0]
	}
	if err := b.client.Do(t.Context(), "XGROUP", "SETID", stream, group, at().LastDeliveredID, "ENTRIESREAD", 3).Err(); err != nil {
		t.Fatal(err)
	}
	if lag := at().Lag; lag != 2 {
		t.Fatalf("lag %d: this server keeps count another way, and this test shows nothing", lag)
	}
	kit.Eventually(t, 10*time.Second, "a backlog of 0", func() bool {
		n, err := b.Backlog(t.Context(), "safe", "g")
		return err == nil && n == 0
	})
}

func TestOversizedDoesNotHurtItsNeighbours(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{MaxBytes: 1 << 20})
		prepare(t, b, "g")
		batch := kit.Messages(5)
		batch[2].Payload = make([]byte, 1<<20)
		err := b.Publish(kit.Within(t, 10*time.Second), batch...)
		for i := range batch {
			want := bus.Accepted
			if i == 2 {
				want = bus.Rejected
			}
			kit.WantClass(t, bus.Outcome(err, i), want)
		}
	})
}

func TestAMissingStreamIsRejected(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		kit.WantClass(t, b.Publish(kit.Within(t, 5*time.Second), kit.Message(1)), bus.Rejected)
		if err := b.client.Set(t.Context(), b.cfg.Name("text"), "x", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		kit.WantClass(t, b.Publish(kit.Within(t, 5*time.Second), bus.Message{ID: "1", Topic: "text"}), bus.Rejected)
		prepare(t, b)
		prepare(t, b, "g")
		prepare(t, b, "g")
		batch := kit.Messages(3)
		batch[1].Topic = "missing"
		err := b.Publish(kit.Within(t, 5*time.Second), batch...)
		for i, want := range []bus.Class{bus.Accepted, bus.Rejected, bus.Accepted} {
			kit.WantClass(t, bus.Outcome(err, i), want)
		}
		for range 2 {
			if err := b.Remove(kit.Within(t, 5*time.Second), "safe", "g"); err != nil {
				t.Fatal(err)
			}
		}
		kit.WantClass(t, b.Publish(kit.Within(t, 5*time.Second), kit.Message(1)), bus.Rejected)
	})
}
