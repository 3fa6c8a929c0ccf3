package kafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"

	"outboxplayground/core/bus"
	"outboxplayground/infra/servers/servertest"
)

// onEach runs a test on the double and, where KAFKA_BROKERS names one, on a real
// broker.
func onEach(t *testing.T, f func(t *testing.T, url string)) {
	t.Run("double", func(t *testing.T) {
		t.Log("double: franz-go kfake in process")
		f(t, double(t).ListenAddrs()[0])
	})
	t.Run("real", func(t *testing.T) { f(t, servertest.URL(t, "kafka")) })
}

func double(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// open makes a bus with a prefix of its own and closes it at the end.
func open(t *testing.T, c bus.Config, o Options) *Bus {
	t.Helper()
	if c.Prefix == "" {
		c.Prefix = "t" + uuid.NewString()[:8]
	}
	b, err := Open(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if !b.isClosed() {
			if err := b.Remove(ctx, "safe", "g"); err != nil {
				t.Log("remove:", err)
			}
		}
		b.Close()
	})
	return b
}

func prepare(t *testing.T, b *Bus, groups ...string) {
	t.Helper()
	if err := b.Prepare(within(t, 20*time.Second), "safe", groups...); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func msg(i int) bus.Message {
	return bus.Message{ID: uuid.NewString(), Topic: "safe", Key: fmt.Sprint("u", i%5), Payload: fmt.Append(nil, i)}
}

func msgs(n int) []bus.Message {
	out := make([]bus.Message, n)
	for i := range out {
		out[i] = msg(i)
	}
	return out
}

// inbox is a subscription that keeps what it got.
type inbox struct {
	mu   sync.Mutex
	got  []bus.Message
	stop context.CancelFunc
	over chan error
	fail func(n int, m bus.Message) error // optional; n counts calls from 1
	call int
}

func subscribe(t *testing.T, b *Bus, group string, fail func(int, bus.Message) error) *inbox {
	ctx, cancel := context.WithCancel(context.Background())
	in := &inbox{stop: cancel, over: make(chan error, 1), fail: fail}
	go func() { in.over <- b.Subscribe(ctx, "safe", group, in.handle) }()
	t.Cleanup(func() { in.end(t) })
	return in
}

func (in *inbox) handle(_ context.Context, m bus.Message) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.call++
	if in.fail != nil {
		if err := in.fail(in.call, m); err != nil {
			return err
		}
	}
	in.got = append(in.got, m)
	return nil
}

// end stops the subscription and checks that it ends in two seconds.
func (in *inbox) end(t *testing.T) {
	in.stop()
	select {
	case err, ok := <-in.over:
		if ok && err != nil {
			t.Log("subscription ended with:", err)
		}
		if ok {
			close(in.over)
		}
	case <-time.After(3 * time.Second):
		t.Error("the subscription did not end within 3 s")
	}
}

func (in *inbox) messages() []bus.Message {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]bus.Message(nil), in.got...)
}

func (in *inbox) distinct() int {
	ids := map[string]bool{}
	for _, m := range in.messages() {
		ids[m.ID] = true
	}
	return len(ids)
}

func eventually(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", d, what)
}

func wantClass(t *testing.T, err error, want bus.Class) {
	t.Helper()
	if got := bus.Classify(err); got != want {
		t.Errorf("class %v, want %v (error: %v)", got, want, err)
	}
}

// cutter is a dial function whose connections can be cut and refused.
type cutter struct {
	mu     sync.Mutex
	refuse bool
	conns  []net.Conn
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse {
		return nil, fmt.Errorf("dial %s: refused by the test", addr)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cutter) cut(refuse bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}
