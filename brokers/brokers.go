// Package brokers opens a bus by its name. It is the one place that knows all five
// drivers; a driver never knows another.
package brokers

import (
	"context"
	"fmt"
	"strings"

	"outboxplayground/brokers/inmemory"
	"outboxplayground/brokers/kafka"
	"outboxplayground/brokers/nats"
	"outboxplayground/brokers/rabbitmq"
	"outboxplayground/brokers/redis"
	"outboxplayground/core/bus"
)

// Names lists the buses there are, as the column outbox.bus spells them.
func Names() []string { return []string{"rabbitmq", "kafka", "nats", "redis", "inmemory"} }

// Config is what a bus is opened with. The options of the other drivers are ignored.
type Config struct {
	bus.Config

	RabbitMQ rabbitmq.Options
	Kafka    kafka.Options
	NATS     nats.Options
	Redis    redis.Options
	InMemory inmemory.Options
}

// Open opens the bus of that name. It fails for an unknown name and for a
// configuration that cannot be used; a broker that is down is not an error: the
// bus answers ErrUnavailable until it is there.
func Open(ctx context.Context, name string, c Config) (bus.Bus, error) {
	switch name {
	case "rabbitmq":
		return opened(rabbitmq.Open(ctx, c.Config, c.RabbitMQ))
	case "kafka":
		return opened(kafka.Open(ctx, c.Config, c.Kafka))
	case "nats":
		return opened(nats.Open(ctx, c.Config, c.NATS))
	case "redis":
		return opened(redis.Open(ctx, c.Config, c.Redis))
	case "inmemory":
		return opened(inmemory.Open(ctx, c.Config, c.InMemory))
	}
	return nil, fmt.Errorf("there is no bus %q; there are %s", name, strings.Join(Names(), ", "))
}

// opened keeps a nil *Bus from becoming a bus.Bus that is not nil.
func opened[B bus.Bus](b B, err error) (bus.Bus, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}
