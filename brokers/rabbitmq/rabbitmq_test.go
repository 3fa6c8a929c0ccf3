package rabbitmq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a bus with a prefix of its own, with topic "safe" and group "mail"
// prepared and removed at the end.
func open(t *testing.T, o Options, dial bus.DialFunc) *Bus {
	t.Helper()
	c := bus.Config{URL: servertest.URL(t, "rabbitmq"), Prefix: "t" + uuid.NewString()[:8], Dial: dial}
	o.Settle = -1 // nobody kills the shared broker
	b, err := Open(kit.Within(t, 5*time.Second), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Prepare(kit.Within(t, 10*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		plain, _ := Open(kit.Within(t, 10*time.Second), bus.Config{URL: c.URL, Prefix: c.Prefix}, o)
		defer plain.Close()
		if err := plain.Remove(kit.Within(t, 10*time.Second), "safe", "mail"); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestMessagesArriveAsTheyWere(t *testing.T) {
	b := open(t, Options{}, nil)
	sent := []bus.Message{
		{ID: uuid.NewString(), Topic: "safe", Key: "使用者", Payload: []byte("{\"名\":\"訂單\",\"n\":1e15}"),
			Headers: map[string]string{"a": "ü", "": "no name", "with space:": "\r\n", "x-delay": "5", "bin": "\x00\xff"}},
		{ID: uuid.NewString(), Topic: "safe", Payload: []byte{}},
		{ID: uuid.NewString(), Topic: "safe", Payload: bytes.Repeat([]byte{0, 255}, 300_000)},
	}
	if err := b.Publish(kit.Within(t, 10*time.Second), sent...); err != nil {
		t.Fatal(err)
	}
	r := kit.Receive(t, b, "mail", nil)
	kit.Eventually(t, 20*time.Second, "three messages", func() bool { return len(r.All()) == 3 })
	for i, m := range r.All() {
		w := sent[i]
		if m.ID != w.ID || m.Topic != w.Topic || m.Key != w.Key || !bytes.Equal(m.Payload, w.Payload) || !maps.Equal(m.Headers, w.Headers) {
			t.Errorf("message %d: got %.200q, want %.200q", i, fmt.Sprint(m), fmt.Sprint(w))
		}
	}
}

func TestTenThousandPipelined(t *testing.T) {
	b := open(t, Options{}, nil)
	msgs, began := kit.Messages(10_000), time.Now()
	if err := b.Publish(kit.Within(t, 60*time.Second), msgs...); err != nil {
		t.Fatal(err)
	}
	t.Logf("10,000 confirmed in %v", time.Since(began))
	if n, err := b.Backlog(kit.Within(t, 5*time.Second), "safe", "mail"); err != nil || n != 10_000 {
		t.Fatal(n, err)
	}
	r := kit.Receive(t, b, "mail", nil)
	kit.Eventually(t, 20*time.Second, "all of them", func() bool { return len(r.All()) == len(msgs) })
	for i, m := range r.All() {
		if m.ID != msgs[i].ID {
			t.Fatalf("position %d: got %s, want %s", i, m.Payload, msgs[i].Payload)
		}
	}
	kit.Eventually(t, 20*time.Second, "no backlog", func() bool {
		n, err := b.Backlog(kit.Within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 0
	})
}

func TestTenThousandUnroutableDoNotDeadlock(t *testing.T) {
	b := open(t, Options{}, nil)
	msgs := kit.Messages(10_000)
	for i := range msgs {
		if i%2 == 1 {
			msgs[i].Topic = "nowhere"
		}
	}
	err := b.Publish(kit.Within(t, 60*time.Second), msgs...)
	for i := range msgs {
		want := bus.Class(bus.Accepted)
		if i%2 == 1 {
			want = bus.Rejected
		}
		if got := bus.Classify(bus.Outcome(err, i)); got != want {
			t.Fatalf("message %d: %v, want %v", i, got, want)
		}
	}
}

func TestRejectedAloneAndAmongNeighbours(t *testing.T) {
	b := open(t, Options{MaxBytes: 1000}, nil)
	cases := map[string]func(*bus.Message){
		"unroutable":   func(m *bus.Message) { m.Topic = "nowhere" },
		"too large":    func(m *bus.Message) { m.Payload = make([]byte, 1001) },
		"header name":  func(m *bus.Message) { m.Headers = map[string]string{strings.Repeat("x", 256): ""} },
		"header CC":    func(m *bus.Message) { m.Headers = map[string]string{"CC": "x"} },
		"headers long": func(m *bus.Message) { m.Headers = map[string]string{"h": strings.Repeat("x", 65<<10)} },
		"long id":      func(m *bus.Message) { m.ID = strings.Repeat("x", 256) },
		"long topic":   func(m *bus.Message) { m.Topic = strings.Repeat("x", 256) },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			msgs := kit.Messages(3)
			spoil(&msgs[1])
			err := b.Publish(kit.Within(t, 5*time.Second), msgs...)
			if got := kit.Classes(err, 3); got != "accepted rejected accepted" {
				t.Error(got, err)
			}
			if err := b.Publish(kit.Within(t, 5*time.Second), msgs[1]); !errors.Is(err, bus.ErrRejected) {
				t.Error("alone:", err)
			}
		})
	}
}

func TestNoExchangeIsRejected(t *testing.T) {
	b, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: servertest.URL(t, "rabbitmq"), Prefix: "t" + uuid.NewString()[:8]}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.Publish(kit.Within(t, 5*time.Second), kit.Messages(3)...)
	if got := kit.Classes(err, 3); got != "rejected rejected rejected" {
		t.Fatal(got, err)
	}
}

func TestExchangeDeletedUnderALivingChannel(t *testing.T) {
	b := open(t, Options{}, nil)
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...); err != nil {
		t.Fatal(err)
	}
	if err := b.Remove(kit.Within(t, 5*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...)
	if !errors.Is(err, bus.ErrRejected) {
		t.Fatal(err)
	}
	if err := b.Prepare(kit.Within(t, 5*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(5)...); err != nil {
		t.Fatal(err)
	}
}

func TestFailedHandlerSeesTheMessageAgain(t *testing.T) {
	for _, classic := range []bool{false, true} {
		t.Run(fmt.Sprintf("classic=%v", classic), func(t *testing.T) {
			b := open(t, Options{Classic: classic}, nil)
			msgs, tries := kit.Messages(3), map[string]int{}
			r := kit.Receive(t, b, "mail", func(_ context.Context, m bus.Message) error {
				if tries[m.ID]++; m.ID == msgs[1].ID && tries[m.ID] <= 25 {
					return errors.New("not yet")
				}
				return nil
			})
			if err := b.Publish(kit.Within(t, 5*time.Second), msgs...); err != nil {
				t.Fatal(err)
			}
			kit.Eventually(t, 20*time.Second, "three messages", func() bool { return len(r.All()) == 3 })
			r.End(t)
			if tries[msgs[1].ID] != 26 || tries[msgs[0].ID] != 1 || len(r.All()[2].Headers) != 0 {
				t.Error(tries, r.All())
			}
		})
	}
}

func TestEveryGroupGetsEverythingAndMembersShare(t *testing.T) {
	b := open(t, Options{}, nil)
	if err := b.Prepare(kit.Within(t, 5*time.Second), "safe", "mail", "audit"); err != nil {
		t.Fatal(err)
	}
	defer b.Remove(kit.Within(t, 5*time.Second), "safe", "audit")
	m1, m2, audit := kit.Receive(t, b, "mail", nil), kit.Receive(t, b, "mail", nil), kit.Receive(t, b, "audit", nil)
	if err := b.Publish(kit.Within(t, 10*time.Second), kit.Messages(200)...); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, 20*time.Second, "200 each", func() bool { return len(m1.All())+len(m2.All()) == 200 && len(audit.All()) == 200 })
}

func TestBacklogCountsWhatAHandlerHolds(t *testing.T) {
	b := open(t, Options{}, nil)
	let := make(chan struct{})
	r := kit.Receive(t, b, "mail", func(context.Context, bus.Message) error { <-let; return nil })
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(20)...); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, 20*time.Second, "20 in all", func() bool {
		n, err := b.Backlog(kit.Within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 20
	})
	other, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: b.cfg.URL, Prefix: b.cfg.Prefix}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	// Polled: 20 in all is true before the first one has been delivered, too.
	kit.Eventually(t, 20*time.Second, "4 from outside, with 16 held", func() bool {
		n, err := other.Backlog(kit.Within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 4
	})
	close(let)
	kit.Eventually(t, 20*time.Second, "none", func() bool {
		n, err := b.Backlog(kit.Within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 0
	})
	if got := len(r.All()); got != 20 {
		t.Error("0 was answered after", got)
	}
	if _, err := b.Backlog(kit.Within(t, 5*time.Second), "safe", "nobody"); err == nil {
		t.Error("a backlog of a group that does not exist")
	}
}
