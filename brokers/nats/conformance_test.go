package nats

import (
	"context"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// TestConformance judges the driver on a nats-server process and on the server
// inside this process, each killed and restarted by the suite.
func TestConformance(t *testing.T) {
	for _, form := range []string{servers.Real, servers.Embedded} {
		t.Run(form, func(t *testing.T) {
			s := servertest.Start(t, "nats", servers.Options{Form: form})
			brokertest.Run(t, brokertest.Harness{
				Name: "nats", Mode: s.Mode + " " + s.Version,
				Open: func(ctx context.Context, c bus.Config) (bus.Bus, error) {
					c.URL = s.URL
					b, err := Open(ctx, c, Options{})
					if err != nil {
						return nil, err
					}
					return b, nil
				},
				Crash:   func(context.Context) error { return s.Kill() },
				Restart: s.Restart,
			}, brokertest.Features{
				Ordered: brokertest.PerTopic, Durable: true, Replays: true, Dedupes: true, Networked: true,
				RedeliveryWithin: defaultAckWait + time.Second, Oversized: 2 << 20,
			})
		})
	}
}
