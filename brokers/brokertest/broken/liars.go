package broken

import (
	"context"
	"fmt"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
)

// liars publish properly and then say something else.
func liars() []Breakage {
	return []Breakage{
		{Name: "lies-about-confirms", Breaks: rules{brokertest.WrongClass, brokertest.Lost},
			Why: "acks=0, core NATS: nil, whatever happened", Wrap: func(h Healthy) Healthy {
				return retold(h, func(error) error { return nil })
			}},
		{Name: "unroutable-is-success", Breaks: rules{brokertest.WrongClass}, Also: rules{brokertest.Lost},
			Why: "RabbitMQ without mandatory: a message for no queue is confirmed", Wrap: func(h Healthy) Healthy {
				return retold(h, func(err error) error { return unless(bus.Rejected, err, nil) })
			}},
		{Name: "stored-but-unavailable", Breaks: rules{brokertest.WrongClass, brokertest.Ghost},
			Why: "every error of the client taken for 'not sent'", Wrap: func(h Healthy) Healthy {
				return retold(h, func(err error) error {
					return unless(bus.Ambiguous, err, fmt.Errorf("%w: %w", bus.ErrUnavailable, err))
				})
			}},
		{Name: "rejected-when-cut", Breaks: rules{brokertest.WrongClass}, Also: rules{brokertest.Undead},
			Why: "every error of the client taken for the broker's refusal", Wrap: func(h Healthy) Healthy {
				return retold(h, func(err error) error {
					return unless(bus.Unavailable, err, fmt.Errorf("%w: down", bus.ErrRejected))
				})
			}},
		{Name: "one-fails-all", Breaks: rules{brokertest.WrongClass, brokertest.Undead},
			Why: "one outcome for a whole batch", Wrap: oneFailsAll},
	}
}

// unless replaces an error of one class.
func unless(c bus.Class, err, instead error) error {
	if bus.Classify(err) == c {
		return instead
	}
	return err
}

func oneFailsAll(h Healthy) Healthy {
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		outs := outcomes(h.Publish(ctx, msgs...), len(msgs))
		for _, err := range outs {
			if err != nil {
				return err
			}
		}
		return nil
	}}
}
