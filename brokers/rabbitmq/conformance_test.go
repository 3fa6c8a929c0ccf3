package rabbitmq

import (
	"context"
	"fmt"
	"testing"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// TestConformance judges the driver on a broker that the suite kills and restarts,
// with quorum and with classic queues.
func TestConformance(t *testing.T) {
	s := servertest.Start(t, "rabbitmq", servers.Options{})
	for _, classic := range []bool{false, true} {
		t.Run(fmt.Sprintf("classic=%v", classic), func(t *testing.T) {
			brokertest.Run(t, brokertest.Harness{
				Name: "rabbitmq", Mode: s.Mode + " " + s.Version,
				Open: func(ctx context.Context, c bus.Config) (bus.Bus, error) {
					c.URL = s.URL
					b, err := Open(ctx, c, Options{Classic: classic})
					if err != nil {
						return nil, err
					}
					return b, nil
				},
				Crash:   func(context.Context) error { return s.Kill() },
				Restart: s.Restart,
			}, brokertest.Features{
				Ordered: brokertest.PerTopic, Durable: true, Networked: true, Oversized: DefaultMaxBytes + 1,
			})
		})
	}
}
