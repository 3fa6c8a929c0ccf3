package brokers_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"outboxplayground/brokers"
	"outboxplayground/core/bus"
)

func TestUnknownNameListsTheFive(t *testing.T) {
	b, err := brokers.Open(t.Context(), "pigeons", brokers.Config{})
	if err == nil || b != nil {
		t.Fatalf("want nil and an error, got %v and %v", b, err)
	}
	if len(brokers.Names()) != 5 {
		t.Errorf("want five names, got %v", brokers.Names())
	}
	for _, name := range brokers.Names() {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not mention %s", err, name)
		}
	}
}

// TestEveryNameOpens: without a broker each name leads to a driver all the same.
// It opens a bus that is unavailable, or fails and then returns no bus at all,
// and every connection goes through the dial function.
func TestEveryNameOpens(t *testing.T) {
	for _, name := range brokers.Names() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			dialled := make(chan string, 100)
			b, err := brokers.Open(ctx, name, brokers.Config{Config: bus.Config{
				URL: unreachable(name),
				Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
					select {
					case dialled <- addr:
					default:
					}
					return nil, errors.New("no route")
				},
			}})
			if err != nil {
				if b != nil || bus.Classify(err) != bus.Unavailable {
					t.Fatalf("want an unavailable bus or no bus, got %v and %v", b, err)
				}
				return
			}
			defer b.Close()
			want := bus.Unavailable
			if name == brokers.InMemory {
				want = bus.Rejected // it is there, and has no topic
			}
			err = b.Publish(ctx, bus.Message{ID: "1", Topic: "safe"})
			if got := bus.Classify(err); got != want {
				t.Errorf("want %s, got %s: %v", want, got, err)
			}
			if name != brokers.InMemory {
				select {
				case <-dialled:
				case <-ctx.Done():
					t.Error("the dial function was never called")
				}
			}
		})
	}
}

func unreachable(name string) string {
	return map[string]string{
		brokers.RabbitMQ: "amqp://127.0.0.1:1",
		brokers.Kafka:    "127.0.0.1:1",
		brokers.NATS:     "nats://127.0.0.1:1",
		brokers.Redis:    "redis://127.0.0.1:1",
	}[name]
}
