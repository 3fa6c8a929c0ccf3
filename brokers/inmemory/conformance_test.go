package inmemory_test

import (
	"context"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/brokers/inmemory"
	"outboxplayground/core/bus"
)

func TestConformance(t *testing.T) {
	brokertest.Run(t, brokertest.Harness{
		Name: "inmemory",
		Mode: "memory",
		Open: func(ctx context.Context, c bus.Config) (bus.Bus, error) {
			return inmemory.Open(ctx, c, inmemory.Options{})
		},
	}, brokertest.Features{
		Ordered:          brokertest.PerTopic,
		Forgets:          true,
		RedeliveryWithin: 100 * time.Millisecond,
		Oversized:        16<<20 + 1,
	})
}
