package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// TestConformance judges the driver on a broker that the suite kills and restarts,
// with quorum and with classic queues. Only where the broker dies do new queues need
// the time to settle.
func TestConformance(t *testing.T) {
	s := servertest.Start(t, "rabbitmq", servers.Options{})
	t.Run("backlog", func(t *testing.T) { testBacklogIsNeverAGuess(t, s) })
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

// A queue whose leader does not answer is not empty. The broker dies right after the
// declaration, as Options.Settle describes, and comes back with such a queue; or, when
// it was quick, with one that holds all. Neither is 0.
func testBacklogIsNeverAGuess(t *testing.T, s *servers.Server) {
	cfg := bus.Config{URL: s.URL, Prefix: "young"}
	b, err := Open(kit.Within(t, 10*time.Second), cfg, Options{Settle: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Prepare(kit.Within(t, 10*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(kit.Within(t, 10*time.Second), kit.Messages(20)...); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Kill(), s.Restart(kit.Within(t, time.Minute))); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for range 4 {
		n, err := b.Backlog(kit.Within(t, time.Second), "safe", "mail")
		if seen = append(seen, fmt.Sprint(n, err)); err == nil && n == 0 {
			t.Errorf("0, but 20 were accepted and nobody has read: %v", seen)
		}
	}
	t.Log(seen[0], "...", seen[len(seen)-1])
}
