package rabbitmq

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// TestConformance judges the driver on a broker that the suite kills and restarts,
// with quorum and with classic queues. Only where the broker dies do new queues need
// the time to settle.
func TestConformance(t *testing.T) {
	s := servertest.Start(t, "rabbitmq", servers.Options{})
	for _, classic := range []bool{false, true} {
		t.Run(fmt.Sprintf("classic=%v", classic), func(t *testing.T) {
			h := brokertest.Harness{
				Name: "rabbitmq", Mode: s.Mode + " " + s.Version,
				Crash: func(context.Context) error { return s.Kill() }, Restart: s.Restart,
			}
			f := brokertest.Features{Ordered: brokertest.PerTopic, Durable: true, Networked: true, Oversized: DefaultMaxBytes + 1}
			for _, check := range brokertest.Checks() {
				o := Options{Classic: classic, Settle: -1}
				if strings.Contains(check.Name, "crash") {
					o.Settle = 0
				}
				h.Open = func(ctx context.Context, c bus.Config) (bus.Bus, error) {
					c.URL = s.URL
					b, err := Open(ctx, c, o)
					if err != nil {
						return nil, err
					}
					return b, nil
				}
				brokertest.Run(t, h, f, check.Name)
			}
		})
	}
}
