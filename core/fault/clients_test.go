package fault_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"outboxplayground/brokers"
	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
	"outboxplayground/infra/servers/servertest"
)

// These tests show that each fault really happens to each client library, through
// the drivers that the playground uses, on the servers that the environment names.
var networked = []string{brokers.RabbitMQ, brokers.Kafka, brokers.NATS, brokers.Redis}

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
	r := newRig(t, brokers.Kafka, bootstrap)
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
