// Package brokers opens a bus by its name. It is the one place that knows all
// five drivers; the drivers do not know each other.
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

// The names of the buses, as ?bus= and the column outbox.bus spell them.
const (
	RabbitMQ = "rabbitmq"
	Kafka    = "kafka"
	NATS     = "nats"
	Redis    = "redis"
	InMemory = "inmemory"
)

// Names returns the five names, in the order in which lists show them.
func Names() []string { return []string{RabbitMQ, Kafka, NATS, Redis, InMemory} }

// Config is what every bus needs, and each driver's own options. Only those of
// the bus that is opened matter, and the zero value of each works.
type Config struct {
	bus.Config
	RabbitMQ rabbitmq.Options
	Kafka    kafka.Options
	NATS     nats.Options
	Redis    redis.Options
	InMemory inmemory.Options
}

// Open opens the bus of that name. An unknown name is an error that lists the
// known ones, and a configuration that cannot be used is one too. A broker that is
// down is not: the bus answers ErrUnavailable until it is there.
func Open(ctx context.Context, name string, c Config) (bus.Bus, error) {
	switch name {
	case RabbitMQ:
		return opened(rabbitmq.Open(ctx, c.Config, c.RabbitMQ))
	case Kafka:
		return opened(kafka.Open(ctx, c.Config, c.Kafka))
	case NATS:
		return opened(nats.Open(ctx, c.Config, c.NATS))
	case Redis:
		return opened(redis.Open(ctx, c.Config, c.Redis))
	case InMemory:
		return opened(inmemory.Open(ctx, c.Config, c.InMemory))
	default:
		return nil, fmt.Errorf("brokers: unknown bus %q, want one of %s", name, strings.Join(Names(), ", "))
	}
}

// opened turns a driver's result into the interface. A nil pointer in a non-nil
// interface would pass every comparison with nil and crash later.
func opened[B bus.Bus](b B, err error) (bus.Bus, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}
