package rabbitmq

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

const (
	retryPause = 100 * time.Millisecond // before a failed message goes back
	ackTime    = 2 * time.Second        // for writing an acknowledgement
)

// Subscribe consumes the queue of a group, which it makes if it is missing; see
// bus.Bus. After a failure of its connection it makes another. It returns
// ErrUnavailable when the bus is closed, and an error when the broker denies access.
func (b *Bus) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	if err := checkNames(topic, []string{group}); err != nil {
		return err
	}
	inner, cancel := b.life.Bound(ctx)
	defer cancel()
	for inner.Err() == nil {
		err := b.consume(inner, topic, group, h)
		if isCode(err, amqp.AccessRefused) && ctx.Err() == nil {
			return fmt.Errorf("rabbitmq: subscribe to %s: %w", topic, err)
		}
		b.life.Pause(inner, redialPause)
	}
	if ctx.Err() == nil {
		return errClosed
	}
	return nil
}

// consume works for as long as one connection lasts.
func (b *Bus) consume(ctx context.Context, topic, group string, h bus.Handler) error {
	c, err := b.dial.open(ctx)
	if err != nil {
		return nil // a broker that is away, or not yet ready to check passwords
	}
	queue := b.cfg.Name(topic, group)
	in := inbox{life: b.life, conn: c, topic: topic, handle: h, held: b.counter(queue),
		queue: make(chan amqp.Delivery, b.cfg.MaxUnacked)}
	release := c.guard(ctx)
	deliveries, err := b.start(c, topic, group)
	release()
	if err != nil {
		c.bye()
		return err
	}
	var pump sync.WaitGroup
	pump.Go(func() { in.pump(deliveries) })
	in.work(ctx)
	c.bye()
	pump.Wait()
	in.drop()
	return nil
}

// start declares the queue and asks for its messages.
func (b *Bus) start(c *conn, topic, group string) (<-chan amqp.Delivery, error) {
	if _, err := b.declare(c, topic, []string{group}); err != nil {
		return nil, err
	}
	ch, err := c.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Qos(b.cfg.MaxUnacked, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume(b.cfg.Name(topic, group), "", false, false, false, false, nil)
}

// inbox is what one subscription holds unacknowledged on one connection.
type inbox struct {
	life   *bus.Lifetime
	conn   *conn
	topic  string
	handle bus.Handler
	held   *counter
	queue  chan amqp.Delivery // has room for all that the broker sends ahead
}

// pump takes deliveries out of the client, where they could not be counted.
func (in *inbox) pump(deliveries <-chan amqp.Delivery) {
	defer close(in.queue)
	for d := range deliveries {
		in.held.Add(1)
		in.queue <- d
	}
}

// work handles messages until ctx or the connection ends.
func (in *inbox) work(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case d, ok := <-in.queue:
			if !ok {
				return
			}
			in.one(ctx, d)
			in.held.Add(-1)
		}
	}
}

// one handles a message and tells the broker. When that fails the connection is
// broken and the broker delivers the message again.
func (in *inbox) one(ctx context.Context, d amqp.Delivery) {
	err := in.handle(ctx, decode(in.topic, d))
	if err != nil {
		in.life.Pause(ctx, retryPause)
	}
	_ = in.conn.within(ackTime, func() error {
		if err != nil {
			return d.Nack(false, true)
		}
		return d.Ack(false)
	})
}

// drop forgets what was not handled. The broker has it back.
func (in *inbox) drop() {
	for range in.queue {
		in.held.Add(-1)
	}
}
