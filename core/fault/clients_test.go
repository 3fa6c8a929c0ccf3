package fault_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"outboxplayground/brokers/kafka"
	"outboxplayground/brokers/rabbitmq"
	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
	"outboxplayground/infra/servers/servertest"
)

// These tests show that each fault really happens to each client library, through
// the drivers that the playground uses, on the servers that the environment names.
var clients = map[string]func(context.Context, bus.Config) (bus.Bus, error){
	"rabbitmq": func(ctx context.Context, c bus.Config) (bus.Bus, error) {
		return rabbitmq.Open(ctx, c, rabbitmq.Options{})
	},
	"kafka": func(ctx context.Context, c bus.Config) (bus.Bus, error) {
		return kafka.Open(ctx, c, kafka.Options{})
	},
}

const role, group = "broker/relay", "mailer"

// rig is one driver behind the proxy, and a second one, not behind it, that tells
// what has arrived.
type rig struct {
	proxy   *fault.Proxy
	bus     bus.Bus
	url     string
	last    bus.Class
	mu      sync.Mutex
	arrived []string
}

func forEachClient(t *testing.T, test func(t *testing.T, r *rig)) {
	for name, open := range clients {
		t.Run(name, func(t *testing.T) {
			url := servertest.URL(t, name)
			test(t, newRig(t, url, open))
		})
	}
}

func newRig(t *testing.T, url string, open func(context.Context, bus.Config) (bus.Bus, error)) *rig {
	t.Helper()
	p, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	prefix := "fault" + uuid.NewString()[:8]
	direct := opened(t, open, bus.Config{URL: url, Prefix: prefix})
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
	r := &rig{proxy: p, url: url}
	r.listen(t, direct)
	r.bus = opened(t, open, bus.Config{URL: url, Prefix: prefix, Dial: p.Dialer(role)})
	r.works(t)
	return r
}

func opened(t *testing.T, open func(context.Context, bus.Config) (bus.Bus, error), c bus.Config) bus.Bus {
	t.Helper()
	b, err := open(within(t, 10*time.Second), c)
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

func TestClientOutage(t *testing.T) {
	forEachClient(t, func(t *testing.T, r *rig) {
		f := r.inject(t, fault.Rule{Kind: fault.Outage})
		var never []string
		eventually(t, "unavailable, and a dial refused", func() bool {
			id, class, took := r.publish(t, 5*time.Second)
			switch class {
			case bus.Accepted, bus.Rejected:
				t.Fatalf("a publish in an outage was %v", class)
			case bus.Unavailable:
				never = append(never, id)
			}
			if took > time.Second {
				t.Errorf("it took %v to say so", took)
			}
			return len(never) > 0 && f.Counts().Refused > 0
		})
		if f.Counts().Cut == 0 {
			t.Errorf("nothing was cut: %+v", f.Counts())
		}
		f.Lift()
		r.works(t)
		for _, id := range never {
			if r.has(id) {
				t.Errorf("%s was unavailable, and arrived", id)
			}
		}
	})
}

func TestClientLosesItsAcknowledgement(t *testing.T) {
	forEachClient(t, func(t *testing.T, r *rig) {
		id := uuid.NewString()
		f := r.inject(t, fault.Rule{Kind: fault.SwallowReplies, Arm: []byte(id), CutAfter: 20 * time.Millisecond, Once: true})
		r.works(t) // other messages are left alone
		if f.Counts() != (fault.Counts{}) {
			t.Fatalf("struck before its event: %+v", f.Counts())
		}
		err := r.bus.Publish(within(t, 5*time.Second), bus.Message{ID: id, Topic: "safe", Payload: []byte("{}")})
		if bus.Classify(err) != bus.Ambiguous {
			t.Errorf("publish: %v; want an ambiguous error", err)
		}
		r.arrives(t, id)
		<-f.Done()
		if n := f.Counts(); n.Armed != 1 || n.Swallowed != 1 || n.SwallowedBytes == 0 || n.Cut != 1 {
			t.Errorf("counts %+v", n)
		}
		r.works(t)
	})
}

func TestClientIsSlowed(t *testing.T) {
	forEachClient(t, func(t *testing.T, r *rig) {
		const delay = 200 * time.Millisecond
		f := r.inject(t, fault.Rule{Kind: fault.Delay, Delay: delay})
		id, class, took := r.publish(t, 5*time.Second)
		if class != bus.Accepted || took < delay || f.Hits() == 0 {
			t.Errorf("%v in %v, hits %d; want accepted after %v or more", class, took, f.Hits(), delay)
		}
		r.arrives(t, id)
	})
}

func TestClientMeetsABlackHole(t *testing.T) {
	forEachClient(t, func(t *testing.T, r *rig) {
		const limit = 500 * time.Millisecond
		f := r.inject(t, fault.Rule{Kind: fault.Stall})
		id, class, took := r.publish(t, limit)
		if class != bus.Ambiguous && class != bus.Unavailable {
			t.Errorf("a publish into a black hole was %v", class)
		}
		if took > limit+time.Second {
			t.Errorf("the deadline was %v, it took %v", limit, took)
		}
		if r.has(id) || f.Counts().HeldBytes == 0 {
			t.Errorf("arrived %v, counts %+v", r.has(id), f.Counts())
		}
		f.Lift()
		r.works(t)
	})
}

// A Kafka client is told by the bootstrap broker where to go. Spelt otherwise
// than the broker advertises itself, the two addresses can be told apart.
func TestKafkaDialsItsAdvertisedAddressThroughTheProxy(t *testing.T) {
	advertised := servertest.URL(t, "kafka")
	if !strings.HasPrefix(advertised, "127.0.0.1:") {
		t.Skipf("KAFKA_BROKERS=%s is not an address of 127.0.0.1, so that it cannot be respelt", advertised)
	}
	bootstrap := strings.Replace(advertised, "127.0.0.1", "localhost", 1)
	r := newRig(t, bootstrap, clients["kafka"])
	targets := func(want string) bool {
		return slices.ContainsFunc(r.proxy.Connections(), func(c fault.Connection) bool { return c.Target == want })
	}
	if !targets(advertised) {
		t.Errorf("no connection to %s, only %+v", advertised, r.proxy.Connections())
	}
	f := inject(t, r.proxy, fault.Rule{Kind: fault.Outage, Target: advertised})
	_, class, _ := r.publish(t, 5*time.Second)
	if class == bus.Accepted || f.Hits() == 0 {
		t.Errorf("%v, hits %d; want the advertised address to be down", class, f.Hits())
	}
	f.Lift()
	r.works(t)
}
