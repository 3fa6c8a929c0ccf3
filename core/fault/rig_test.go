package fault_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"outboxplayground/brokers"
	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
	"outboxplayground/infra/servers/servertest"
)

const role, group = "broker/relay", "mailer"

// rig is one driver behind the proxy, and a second one, not behind it, that tells
// what has arrived.
type rig struct {
	proxy   *fault.Proxy
	bus     bus.Bus
	last    bus.Class
	mu      sync.Mutex
	arrived []string
}

func forEachClient(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, name := range networked {
		t.Run(name, func(t *testing.T) { test(t, newRig(t, name, servertest.URL(t, name))) })
	}
}

func newRig(t *testing.T, name, url string) *rig {
	t.Helper()
	p, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	prefix := "fault" + uuid.NewString()[:8]
	direct := opened(t, name, bus.Config{URL: url, Prefix: prefix})
	topology := direct.(bus.Topology)
	if err := topology.Prepare(within(t, 30*time.Second), "safe", group); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := topology.Remove(ctx, "safe", group); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	r := &rig{proxy: p}
	r.listen(t, direct)
	r.bus = opened(t, name, bus.Config{URL: url, Prefix: prefix, Dial: p.Dialer(role)})
	r.works(t)
	return r
}

func opened(t *testing.T, name string, c bus.Config) bus.Bus {
	t.Helper()
	b, err := brokers.Open(within(t, 10*time.Second), name, brokers.Config{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// listen notes what arrives, until the test ends.
func (r *rig) listen(t *testing.T, direct bus.Bus) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		over <- direct.Subscribe(ctx, "safe", group, func(_ context.Context, m bus.Message) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.arrived = append(r.arrived, m.ID)
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-over })
}

func (r *rig) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.arrived, id)
}

// publish sends one message with a deadline and says what became of it.
func (r *rig) publish(t *testing.T, limit time.Duration) (id string, class bus.Class, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	id = uuid.NewString()
	start := time.Now()
	err := r.bus.Publish(ctx, bus.Message{ID: id, Topic: "safe", Payload: []byte(`{"event":"` + id + `"}`)})
	took, class = time.Since(start), bus.Classify(err)
	if class != r.last {
		t.Logf("publishes are now %v, in %v: %v", class, took.Round(time.Millisecond), err)
	}
	r.last = class
	return id, class, took
}

// works publishes until the driver has a connection, and waits for the arrival.
func (r *rig) works(t *testing.T) {
	t.Helper()
	var id string
	eventually(t, "a publish is accepted", func() bool {
		var class bus.Class
		id, class, _ = r.publish(t, time.Second)
		return class == bus.Accepted
	})
	r.arrives(t, id)
}

func (r *rig) arrives(t *testing.T, id string) {
	t.Helper()
	eventually(t, "the message arrives", func() bool { return r.has(id) })
}

func (r *rig) inject(t *testing.T, rule fault.Rule) *fault.Injected {
	t.Helper()
	rule.Role = "broker"
	return inject(t, r.proxy, rule)
}
