package rabbitmq

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
	"go.uber.org/goleak"

	"outboxplayground/core/bus"
	"outboxplayground/infra/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// open returns a bus with a prefix of its own, with topic "safe" and group "mail"
// prepared and removed at the end.
func open(t *testing.T, o Options, dial bus.DialFunc) *Bus {
	t.Helper()
	c := bus.Config{URL: servertest.URL(t, "rabbitmq"), Prefix: "t" + uuid.NewString()[:8], Dial: dial}
	o.Settle = -1 // nobody kills the shared broker
	b, err := Open(within(t, 5*time.Second), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Prepare(within(t, 10*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		plain, _ := Open(within(t, 10*time.Second), bus.Config{URL: c.URL, Prefix: c.Prefix}, o)
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

func classes(err error, n int) string {
	var s []string
	for i := range n {
		s = append(s, bus.Classify(bus.Outcome(err, i)).String())
	}
	return strings.Join(s, " ")
}

func TestMessagesArriveAsTheyWere(t *testing.T) {
	b := open(t, Options{}, nil)
	sent := []bus.Message{
		{ID: uuid.NewString(), Topic: "safe", Key: "使用者", Payload: []byte("{\"名\":\"訂單\",\"n\":1e15}"),
			Headers: map[string]string{"a": "ü", "": "no name", "with space:": "\r\n", "x-delay": "5", "bin": "\x00\xff"}},
		{ID: uuid.NewString(), Topic: "safe", Payload: []byte{}},
		{ID: uuid.NewString(), Topic: "safe", Payload: bytes.Repeat([]byte{0, 255}, 300_000)},
	}
	if err := b.Publish(within(t, 10*time.Second), sent...); err != nil {
		t.Fatal(err)
	}
	r := receive(t, b, "mail", nil)
	eventually(t, "three messages", func() bool { return len(r.all()) == 3 })
	for i, m := range r.all() {
		w := sent[i]
		if m.ID != w.ID || m.Topic != w.Topic || m.Key != w.Key || !bytes.Equal(m.Payload, w.Payload) || !maps.Equal(m.Headers, w.Headers) {
			t.Errorf("message %d: got %.200q, want %.200q", i, fmt.Sprint(m), fmt.Sprint(w))
		}
	}
}

func TestTenThousandPipelined(t *testing.T) {
	b := open(t, Options{}, nil)
	msgs, began := messages(10_000), time.Now()
	if err := b.Publish(within(t, 60*time.Second), msgs...); err != nil {
		t.Fatal(err)
	}
	t.Logf("10,000 confirmed in %v", time.Since(began))
	if n, err := b.Backlog(within(t, 5*time.Second), "safe", "mail"); err != nil || n != 10_000 {
		t.Fatal(n, err)
	}
	r := receive(t, b, "mail", nil)
	eventually(t, "all of them", func() bool { return len(r.all()) == len(msgs) })
	for i, m := range r.all() {
		if m.ID != msgs[i].ID {
			t.Fatalf("position %d: got %s, want %s", i, m.Payload, msgs[i].Payload)
		}
	}
	eventually(t, "no backlog", func() bool {
		n, err := b.Backlog(within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 0
	})
}

func TestTenThousandUnroutableDoNotDeadlock(t *testing.T) {
	b := open(t, Options{}, nil)
	msgs := messages(10_000)
	for i := range msgs {
		if i%2 == 1 {
			msgs[i].Topic = "nowhere"
		}
	}
	err := b.Publish(within(t, 60*time.Second), msgs...)
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
			msgs := messages(3)
			spoil(&msgs[1])
			err := b.Publish(within(t, 5*time.Second), msgs...)
			if got := classes(err, 3); got != "accepted rejected accepted" {
				t.Error(got, err)
			}
			if err := b.Publish(within(t, 5*time.Second), msgs[1]); !errors.Is(err, bus.ErrRejected) {
				t.Error("alone:", err)
			}
		})
	}
}

func TestNoExchangeIsRejected(t *testing.T) {
	b, err := Open(within(t, 5*time.Second), bus.Config{URL: servertest.URL(t, "rabbitmq"), Prefix: "t" + uuid.NewString()[:8]}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.Publish(within(t, 5*time.Second), messages(3)...)
	if got := classes(err, 3); got != "rejected rejected rejected" {
		t.Fatal(got, err)
	}
}

func TestExchangeDeletedUnderALivingChannel(t *testing.T) {
	b := open(t, Options{}, nil)
	if err := b.Publish(within(t, 5*time.Second), messages(1)...); err != nil {
		t.Fatal(err)
	}
	if err := b.Remove(within(t, 5*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	err := b.Publish(within(t, 5*time.Second), messages(1)...)
	if !errors.Is(err, bus.ErrRejected) {
		t.Fatal(err)
	}
	if err := b.Prepare(within(t, 5*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(within(t, 5*time.Second), messages(5)...); err != nil {
		t.Fatal(err)
	}
}

func TestFailedHandlerSeesTheMessageAgain(t *testing.T) {
	for _, classic := range []bool{false, true} {
		t.Run(fmt.Sprintf("classic=%v", classic), func(t *testing.T) {
			b := open(t, Options{Classic: classic}, nil)
			msgs, tries := messages(3), map[string]int{}
			r := receive(t, b, "mail", func(_ context.Context, m bus.Message) error {
				if tries[m.ID]++; m.ID == msgs[1].ID && tries[m.ID] <= 25 {
					return errors.New("not yet")
				}
				return nil
			})
			if err := b.Publish(within(t, 5*time.Second), msgs...); err != nil {
				t.Fatal(err)
			}
			eventually(t, "three messages", func() bool { return len(r.all()) == 3 })
			r.end(t)
			if tries[msgs[1].ID] != 26 || tries[msgs[0].ID] != 1 || len(r.all()[2].Headers) != 0 {
				t.Error(tries, r.all())
			}
		})
	}
}

func TestEveryGroupGetsEverythingAndMembersShare(t *testing.T) {
	b := open(t, Options{}, nil)
	if err := b.Prepare(within(t, 5*time.Second), "safe", "mail", "audit"); err != nil {
		t.Fatal(err)
	}
	defer b.Remove(within(t, 5*time.Second), "safe", "audit")
	m1, m2, audit := receive(t, b, "mail", nil), receive(t, b, "mail", nil), receive(t, b, "audit", nil)
	if err := b.Publish(within(t, 10*time.Second), messages(200)...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "200 each", func() bool { return len(m1.all())+len(m2.all()) == 200 && len(audit.all()) == 200 })
}

func TestBacklogCountsWhatAHandlerHolds(t *testing.T) {
	b := open(t, Options{}, nil)
	let := make(chan struct{})
	r := receive(t, b, "mail", func(context.Context, bus.Message) error { <-let; return nil })
	if err := b.Publish(within(t, 5*time.Second), messages(20)...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "20 in all", func() bool {
		n, err := b.Backlog(within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 20
	})
	other, err := Open(within(t, 5*time.Second), bus.Config{URL: b.cfg.URL, Prefix: b.cfg.Prefix}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if n, err := other.Backlog(within(t, 5*time.Second), "safe", "mail"); err != nil || n != 4 {
		t.Error("from outside, with 16 held:", n, err)
	}
	close(let)
	eventually(t, "none", func() bool {
		n, err := b.Backlog(within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 0
	})
	if got := len(r.all()); got != 20 {
		t.Error("0 was answered after", got)
	}
	if _, err := b.Backlog(within(t, 5*time.Second), "safe", "nobody"); err == nil {
		t.Error("a backlog of a group that does not exist")
	}
}
