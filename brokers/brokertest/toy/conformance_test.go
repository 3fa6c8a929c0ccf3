package toy_test

import (
	"context"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/brokers/brokertest/toy"
	"outboxplayground/core/bus"
)

// TestConformance: the broker on which the suite is tested passes it whole.
func TestConformance(t *testing.T) {
	s, err := toy.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	brokertest.Run(t, brokertest.Harness{
		Name: "toy",
		Mode: "fake",
		Open: func(_ context.Context, c bus.Config) (bus.Bus, error) {
			return toy.Open(s, c), nil
		},
		Crash:   s.Crash,
		Restart: s.Restart,
	}, brokertest.Features{
		Ordered:          brokertest.PerTopic,
		Durable:          true,
		Networked:        true,
		RedeliveryWithin: 100 * time.Millisecond,
		Oversized:        toy.MaxBytes + 1,
	})
}
