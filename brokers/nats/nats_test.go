package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

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

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func open(t *testing.T, url string, o Options, dial bus.DialFunc) *Bus {
	t.Helper()
	c := bus.Config{URL: url, Prefix: "t" + uuid.NewString()[:8], Dial: dial}
	b, err := Open(within(t, 5*time.Second), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Prepare(within(t, 10*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		plain, _ := Open(within(t, 10*time.Second), bus.Config{URL: url, Prefix: c.Prefix}, o)
		defer plain.Close()
		if err := plain.Remove(within(t, 10*time.Second), "safe", "mail"); err != nil {
			t.Error(err)
		}
	})
	return b
}

func messages(n int) []bus.Message {
	msgs := make([]bus.Message, n)
	for i := range msgs {
		msgs[i] = bus.Message{ID: uuid.NewString(), Topic: "safe", Payload: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	return msgs
}

// receiver collects what a subscription delivers.
type receiver struct {
	mu   sync.Mutex
	got  []bus.Message
	stop context.CancelFunc
	done chan error
}

func receive(t *testing.T, b *Bus, group string, h bus.Handler) *receiver {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &receiver{stop: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- b.Subscribe(ctx, "safe", group, func(ctx context.Context, m bus.Message) error {
			if h != nil {
				if err := h(ctx, m); err != nil {
					return err
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.got = append(r.got, m)
			return nil
		})
	}()
	t.Cleanup(func() { r.end(t) })
	return r
}

func (r *receiver) end(t *testing.T) {
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			t.Error("Subscribe:", err)
		}
		r.done <- nil
	case <-time.After(5 * time.Second):
		t.Error("Subscribe did not return within 5 s of the end of its context")
	}
}

func (r *receiver) all() []bus.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]bus.Message(nil), r.got...)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatal("not within 20 s: " + what)
}

func backlog(t *testing.T, b *Bus) int64 {
	n, err := b.Backlog(within(t, 5*time.Second), "safe", "mail")
	if err != nil {
		return -1
	}
	return n
}

func classes(err error, n int) string {
	var s []string
	for i := range n {
		s = append(s, bus.Classify(bus.Outcome(err, i)).String())
	}
	return strings.Join(s, " ")
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
		if err := b.Publish(within(t, 10*time.Second), sent...); err != nil {
			t.Fatal(err)
		}
		r := receive(t, b, "mail", nil)
		eventually(t, "three messages", func() bool { return len(r.all()) == 3 })
		for i, m := range r.all() {
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
		msgs, began := messages(10_000), time.Now()
		if err := b.Publish(within(t, 60*time.Second), msgs...); err != nil {
			t.Fatal(err)
		}
		t.Logf("10,000 acknowledged in %v", time.Since(began))
		if n := backlog(t, b); n != 10_000 {
			t.Fatal(n)
		}
		began = time.Now()
		r := receive(t, b, "mail", nil)
		eventually(t, "all of them", func() bool { return len(r.all()) == len(msgs) })
		t.Logf("10,000 received in %v", time.Since(began))
		for i, m := range r.all() {
			if m.ID != msgs[i].ID {
				t.Fatalf("position %d: got %s, want %s", i, m.Payload, msgs[i].Payload)
			}
		}
		eventually(t, "no backlog", func() bool { return backlog(t, b) == 0 })
	})
}

func TestRepeatedIDIsAbsorbedInsideTheWindowOnly(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{DedupeWindow: minDedupeWindow}, nil)
		m := messages(1)[0]
		if err := b.Publish(within(t, 5*time.Second), m, m); err != nil {
			t.Fatal(err)
		}
		if n := backlog(t, b); n != 1 {
			t.Fatal("inside:", n)
		}
		eventually(t, "stored a second time", func() bool {
			return b.Publish(within(t, 5*time.Second), m) == nil && backlog(t, b) == 2
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
				msgs, began := messages(3), time.Now()
				spoil(&msgs[1])
				err := b.Publish(within(t, 5*time.Second), msgs...)
				if got := classes(err, 3); got != "accepted rejected accepted" {
					t.Error(got, err)
				}
				if err := b.Publish(within(t, 5*time.Second), msgs[1]); !errors.Is(err, bus.ErrRejected) {
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
		msgs, tries := messages(3), map[string]int{}
		r := receive(t, b, "mail", func(_ context.Context, m bus.Message) error {
			if tries[m.ID]++; m.ID == msgs[1].ID && tries[m.ID] <= 5 {
				return errors.New("not yet")
			}
			return nil
		})
		if err := b.Publish(within(t, 5*time.Second), msgs...); err != nil {
			t.Fatal(err)
		}
		eventually(t, "three messages", func() bool { return len(r.all()) == 3 })
		r.end(t)
		if tries[msgs[1].ID] != 6 || tries[msgs[0].ID] != 1 {
			t.Error(tries)
		}
		eventually(t, "no backlog", func() bool { return backlog(t, b) == 0 })
	})
}

func TestSlowHandlerKeepsWhatItHolds(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{AckWait: 1500 * time.Millisecond}, nil)
		calls, let := make(chan string, 100), make(chan struct{})
		r := receive(t, b, "mail", func(_ context.Context, m bus.Message) error { calls <- m.ID; <-let; return nil })
		if err := b.Publish(within(t, 5*time.Second), messages(3)...); err != nil {
			t.Fatal(err)
		}
		<-calls
		timer := time.NewTimer(4 * time.Second) // more than twice AckWait: nothing may come again
		<-timer.C
		if n := backlog(t, b); n != 3 {
			t.Error("backlog while held:", n)
		}
		close(let)
		eventually(t, "no backlog", func() bool { return backlog(t, b) == 0 })
		if got := r.all(); len(got) != 3 {
			t.Errorf("%d deliveries of 3 messages", len(got))
		}
	})
}

func TestEveryGroupGetsEverythingAndASlowMemberDoesNotStarveAnother(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		let, holding := make(chan struct{}), make(chan struct{}, 1000)
		slow := receive(t, b, "mail", func(context.Context, bus.Message) error { holding <- struct{}{}; <-let; return nil })
		if err := b.Publish(within(t, 10*time.Second), messages(200)...); err != nil {
			t.Fatal(err)
		}
		<-holding
		fast, audit := receive(t, b, "mail", nil), receive(t, b, "audit.group", nil)
		eventually(t, "the rest", func() bool { return len(fast.all()) == 200-bus.DefaultMaxUnacked && len(audit.all()) == 200 })
		close(let)
		eventually(t, "all", func() bool { return len(fast.all())+len(slow.all()) == 200 })
	})
}

func TestTwoSubjectsDoNotShareAStream(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		if err := b.Prepare(within(t, 5*time.Second), "a.b"); err != nil {
			t.Fatal(err)
		}
		defer b.Remove(within(t, 5*time.Second), "a.b")
		if err := b.Prepare(within(t, 5*time.Second), "a_b"); !errors.Is(err, errTaken) {
			t.Error(err)
		}
		if err := b.Remove(within(t, 5*time.Second), "a_b"); !errors.Is(err, errTaken) {
			t.Error(err)
		}
		if err := b.Subscribe(within(t, 5*time.Second), "a_b", "g", nil); !errors.Is(err, errTaken) {
			t.Error(err)
		}
	})
}
