package kafka

import (
	"context"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// TestConformance judges the driver on Apache Kafka and on kfake, each killed and
// restarted by the suite.
func TestConformance(t *testing.T) {
	for _, form := range []string{servers.Real, servers.Fake} {
		t.Run(form, func(t *testing.T) {
			s := servertest.Start(t, "kafka", servers.Options{Form: form})
			brokertest.Run(t, brokertest.Harness{
				Name: "kafka", Mode: s.Mode + " " + s.Version,
				Open: func(ctx context.Context, c bus.Config) (bus.Bus, error) {
					c.URL = s.URL
					b, err := Open(ctx, c, Options{Partitions: 3})
					if err != nil {
						return nil, err
					}
					return b, nil
				},
				Crash:   func(context.Context) error { return s.Kill() },
				Restart: s.Restart,
			}, brokertest.Features{
				Ordered: brokertest.PerKey, Durable: true, Replays: true, Partitioned: true, Networked: true,
				RedeliveryWithin: sessionTimeout + 2*time.Second, Oversized: 2 << 20,
			})
		})
	}
}
