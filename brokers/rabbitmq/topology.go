package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"math"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

// Prepare makes the exchange and a queue for each group; see bus.Topology. Without
// a group the topic has no queue, and what is published to it is ErrRejected. A
// queue that exists is left as it is, also with other settings. When it has made a
// queue it waits for Options.Settle.
func (b *Bus) Prepare(ctx context.Context, topic string, groups ...string) error {
	made := false
	err := b.insist(ctx, "prepare", func(c *conn) error {
		fresh, err := b.declare(c, topic, groups)
		made = made || fresh
		if err == nil {
			_, err = b.link.current() // a publish goes another way than this call
		}
		return err
	}, topic, groups)
	if err == nil && made {
		ctx, cancel := b.life.Bound(ctx)
		defer cancel()
		b.life.Pause(ctx, b.opts.Settle)
		err = ctx.Err()
	}
	return err
}

// Remove deletes the queues of the groups, and the exchange when no queue of any
// topic is bound to it any more; see bus.Topology. AMQP cannot list queues: a group
// that is not named stays. End the subscriptions first: one that lives on makes
// its queue again.
func (b *Bus) Remove(ctx context.Context, topic string, groups ...string) error {
	return b.insist(ctx, "remove", func(c *conn) error { return b.delete(c, topic, groups) }, topic, groups)
}

// insist tries until it succeeds or ctx ends.
func (b *Bus) insist(ctx context.Context, what string, do func(*conn) error, topic string, groups []string) error {
	if err := checkNames(topic, groups); err != nil {
		return err
	}
	ctx, cancel := b.life.Bound(ctx)
	defer cancel()
	for {
		err := b.desk.with(ctx, do)
		switch {
		case err == nil:
			return nil
		case b.life.Over():
			return errClosed
		case isCode(err, amqp.AccessRefused):
			return fmt.Errorf("rabbitmq: %s %s: %w", what, topic, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%w: rabbitmq: %s %s: %w: %w", bus.ErrUnavailable, what, topic, ctx.Err(), err)
		}
		b.life.Pause(ctx, redialPause)
	}
}

func checkNames(topic string, groups []string) error {
	for _, name := range append([]string{topic}, groups...) {
		if err := checkName(name); err != nil {
			return fmt.Errorf("rabbitmq: %q: %w", name, err)
		}
	}
	return nil
}

// declare makes what is not there, and says whether that was a queue. A channel
// serves one step, because an objection of the broker closes it.
func (b *Bus) declare(c *conn, topic string, groups []string) (made bool, err error) {
	exchange := b.cfg.Name("events")
	err = onChannel(c, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	for _, group := range groups {
		queue, fresh := b.cfg.Name(topic, group), false
		if err == nil {
			fresh, err = b.declareQueue(c, queue)
			made = made || fresh
		}
		if err == nil {
			err = onChannel(c, func(ch *amqp.Channel) error {
				return ch.QueueBind(queue, topic, exchange, false, nil)
			})
		}
	}
	return made, err
}

// declareQueue looks first: a queue with other settings would be an objection.
func (b *Bus) declareQueue(c *conn, queue string) (made bool, err error) {
	err = onChannel(c, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if !isCode(err, amqp.NotFound) {
		return false, err
	}
	err = onChannel(c, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, b.queueArgs())
		return err
	})
	return err == nil, err
}

// queueArgs asks for a quorum queue that never drops a message for being
// delivered often. RabbitMQ 4 does so after 20 deliveries unless told otherwise;
// its "-1: no limit" is refused by 3.10, so the limit is out of reach instead.
func (b *Bus) queueArgs() amqp.Table {
	if b.opts.Classic {
		return amqp.Table{"x-queue-type": "classic"}
	}
	return amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32)}
}

func (b *Bus) delete(c *conn, topic string, groups []string) error {
	for _, group := range groups {
		err := onChannel(c, func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(b.cfg.Name(topic, group), false, false, false)
			return err
		})
		if err != nil && !isCode(err, amqp.NotFound) {
			return err
		}
	}
	err := onChannel(c, func(ch *amqp.Channel) error {
		return ch.ExchangeDelete(b.cfg.Name("events"), true, false)
	})
	if isCode(err, amqp.PreconditionFailed) || isCode(err, amqp.NotFound) {
		return nil // other topics use it, or it is gone
	}
	return err
}

// onChannel runs f on a channel of its own.
func onChannel(c *conn, f func(*amqp.Channel) error) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	if err := f(ch); err != nil {
		_ = ch.Close()
		return err
	}
	return ch.Close()
}

func isCode(err error, code int) bool {
	var e *amqp.Error
	return errors.As(err, &e) && e.Code == code
}
