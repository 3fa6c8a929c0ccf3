package nats

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
	natsserver "github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// embedded starts the server inside the test, on a directory of the test's.
func embedded(t *testing.T, dir string, port int, change func(*natsserver.Options)) *natsserver.Server {
	t.Helper()
	o := &natsserver.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}
	if change != nil {
		change(o)
	}
	s, err := natsserver.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(5 * time.Second) {
		t.Fatal("the embedded server is not ready")
	}
	return s
}

func halt(s *natsserver.Server) { s.Shutdown(); s.WaitForShutdown() }

// each runs a test on the embedded server, and on the one at NATS_URL.
func each(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("embedded", func(t *testing.T) {
		s := embedded(t, t.TempDir(), natsserver.RANDOM_PORT, nil)
		t.Cleanup(func() { halt(s) })
		test(t, s.ClientURL())
	})
	t.Run("external", func(t *testing.T) {
		test(t, servertest.URL(t, "nats"))
	})
}

func open(t *testing.T, url string, o Options, dial bus.DialFunc) *Bus {
	t.Helper()
	c := bus.Config{URL: url, Prefix: "t" + uuid.NewString()[:8], Dial: dial}
	b, err := Open(kit.Within(t, 5*time.Second), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Prepare(kit.Within(t, 10*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		plain, _ := Open(kit.Within(t, 10*time.Second), bus.Config{URL: url, Prefix: c.Prefix}, o)
		defer plain.Close()
		if err := plain.Remove(kit.Within(t, 10*time.Second), "safe", "mail"); err != nil {
			t.Error(err)
		}
	})
	return b
}

func backlog(t *testing.T, b *Bus) int64 {
	n, err := b.Backlog(kit.Within(t, 5*time.Second), "safe", "mail")
	if err != nil {
		return -1
	}
	return n
}

func TestMessagesArriveAsTheyWere(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		sent := []bus.Message{
			{ID: uuid.NewString(), Topic: "safe", Key: "使用者", Payload: []byte("{\"名\":\"訂單\",\"n\":1e15}"),
				Headers: map[string]string{"a": "ü", "": "no name", "with space:": "\r\n", "Status": "503", "nats-msg-id": "x",
					"Nats-Expected-Last-Sequence": "99", "bin": "\x00\xff", "empty": "", "edge": " x ", "A": "plain", "x-y": "a;b&c=d%"}},
			{ID: uuid.NewString(), Topic: "safe", Key: "u1", Payload: []byte{}},
			{Topic: "safe", Payload: bytes.Repeat([]byte{0, 255}, 300_000)},
		}
		if err := b.Publish(kit.Within(t, 10*time.Second), sent...); err != nil {
			t.Fatal(err)
		}
		r := kit.Receive(t, b, "mail", nil)
		kit.Eventually(t, 20*time.Second, "three messages", func() bool { return len(r.All()) == 3 })
		for i, m := range r.All() {
			w := sent[i]
			if m.ID != w.ID || m.Topic != w.Topic || m.Key != w.Key || !bytes.Equal(m.Payload, w.Payload) || !maps.Equal(m.Headers, w.Headers) {
				t.Errorf("message %d: got %.300q, want %.300q", i, fmt.Sprint(m), fmt.Sprint(w))
			}
		}
	})
}

func TestTenThousandPipelined(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		msgs, began := kit.Messages(10_000), time.Now()
		if err := b.Publish(kit.Within(t, 60*time.Second), msgs...); err != nil {
			t.Fatal(err)
		}
		t.Logf("10,000 acknowledged in %v", time.Since(began))
		if n := backlog(t, b); n != 10_000 {
			t.Fatal(n)
		}
		began = time.Now()
		r := kit.Receive(t, b, "mail", nil)
		kit.Eventually(t, 20*time.Second, "all of them", func() bool { return len(r.All()) == len(msgs) })
		t.Logf("10,000 received in %v", time.Since(began))
		for i, m := range r.All() {
			if m.ID != msgs[i].ID {
				t.Fatalf("position %d: got %s, want %s", i, m.Payload, msgs[i].Payload)
			}
		}
		kit.Eventually(t, 20*time.Second, "no backlog", func() bool { return backlog(t, b) == 0 })
	})
}

func TestRepeatedIDIsAbsorbedInsideTheWindowOnly(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{DedupeWindow: minDedupeWindow}, nil)
		m := kit.Messages(1)[0]
		if err := b.Publish(kit.Within(t, 5*time.Second), m, m); err != nil {
			t.Fatal(err)
		}
		if n := backlog(t, b); n != 1 {
			t.Fatal("inside:", n)
		}
		kit.Eventually(t, 20*time.Second, "stored a second time", func() bool {
			return b.Publish(kit.Within(t, 5*time.Second), m) == nil && backlog(t, b) == 2
		})
	})
}

func TestRejectedAloneAndAmongNeighbours(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		cases := map[string]func(*bus.Message){
			"no stream":  func(m *bus.Message) { m.Topic = "nowhere" },
			"too large":  func(m *bus.Message) { m.Payload = make([]byte, 2<<20) },
			"wildcard":   func(m *bus.Message) { m.Topic = "safe.*" },
			"no topic":   func(m *bus.Message) { m.Topic = "" },
			"long topic": func(m *bus.Message) { m.Topic = strings.Repeat("x", 256) },
			"id":         func(m *bus.Message) { m.ID = "a\r\nb" },
			"own header": func(m *bus.Message) { m.Headers = map[string]string{keyHeader: "x"} },
		}
		for name, spoil := range cases {
			t.Run(name, func(t *testing.T) {
				msgs, began := kit.Messages(3), time.Now()
				spoil(&msgs[1])
				err := b.Publish(kit.Within(t, 5*time.Second), msgs...)
				if got := kit.Classes(err, 3); got != "accepted rejected accepted" {
					t.Error(got, err)
				}
				if err := b.Publish(kit.Within(t, 5*time.Second), msgs[1]); !errors.Is(err, bus.ErrRejected) {
					t.Error("alone:", err)
				}
				if took := time.Since(began); took > 200*time.Millisecond {
					t.Error("not at once:", took)
				}
			})
		}
	})
}

func TestFailedHandlerSeesTheMessageAgain(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		msgs, tries := kit.Messages(3), map[string]int{}
		r := kit.Receive(t, b, "mail", func(_ context.Context, m bus.Message) error {
			if tries[m.ID]++; m.ID == msgs[1].ID && tries[m.ID] <= 5 {
				return errors.New("not yet")
			}
			return nil
		})
		if err := b.Publish(kit.Within(t, 5*time.Second), msgs...); err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, 20*time.Second, "three messages", func() bool { return len(r.All()) == 3 })
		r.End(t)
		if tries[msgs[1].ID] != 6 || tries[msgs[0].ID] != 1 {
			t.Error(tries)
		}
		kit.Eventually(t, 20*time.Second, "no backlog", func() bool { return backlog(t, b) == 0 })
	})
}

func TestSlowHandlerKeepsWhatItHolds(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{AckWait: 1500 * time.Millisecond}, nil)
		calls, let := make(chan string, 100), make(chan struct{})
		r := kit.Receive(t, b, "mail", func(_ context.Context, m bus.Message) error { calls <- m.ID; <-let; return nil })
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(3)...); err != nil {
			t.Fatal(err)
		}
		<-calls
		timer := time.NewTimer(4 * time.Second) // more than twice AckWait: nothing may come again
		<-timer.C
		if n := backlog(t, b); n != 3 {
			t.Error("backlog while held:", n)
		}
		close(let)
		kit.Eventually(t, 20*time.Second, "no backlog", func() bool { return backlog(t, b) == 0 })
		if got := r.All(); len(got) != 3 {
			t.Errorf("%d deliveries of 3 messages", len(got))
		}
	})
}

func TestEveryGroupGetsEverythingAndASlowMemberDoesNotStarveAnother(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		let, holding := make(chan struct{}), make(chan struct{}, 1000)
		slow := kit.Receive(t, b, "mail", func(context.Context, bus.Message) error { holding <- struct{}{}; <-let; return nil })
		if err := b.Publish(kit.Within(t, 10*time.Second), kit.Messages(200)...); err != nil {
			t.Fatal(err)
		}
		<-holding
		fast, audit := kit.Receive(t, b, "mail", nil), kit.Receive(t, b, "audit.group", nil)
		kit.Eventually(t, 20*time.Second, "the rest", func() bool { return len(fast.All()) == 200-bus.DefaultMaxUnacked && len(audit.All()) == 200 })
		close(let)
		kit.Eventually(t, 20*time.Second, "all", func() bool { return len(fast.All())+len(slow.All()) == 200 })
	})
}

func TestTwoSubjectsDoNotShareAStream(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		if err := b.Prepare(kit.Within(t, 5*time.Second), "a.b"); err != nil {
			t.Fatal(err)
		}
		defer b.Remove(kit.Within(t, 5*time.Second), "a.b")
		if err := b.Prepare(kit.Within(t, 5*time.Second), "a_b"); !errors.Is(err, errTaken) {
			t.Error(err)
		}
		if err := b.Remove(kit.Within(t, 5*time.Second), "a_b"); !errors.Is(err, errTaken) {
			t.Error(err)
		}
		if err := b.Subscribe(kit.Within(t, 5*time.Second), "a_b", "g", nil); !errors.Is(err, errTaken) {
			t.Error(err)
		}
	})
}
