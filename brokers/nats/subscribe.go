package nats

import (
	"context"
	"fmt"

	"outboxplayground/core/bus"
)

// Subscribe consumes as a member of a group; see bus.Bus. It makes stream and
// consumer if they are missing, also when they vanish meanwhile; a consumer that is
// made again starts with the first message. It returns ErrUnavailable when the bus
// is closed, and an error when the server refuses the stream or consumer for good.
func (b *Bus) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	if err := checkNames(topic, group); err != nil {
		return err
	}
	inner, cancel := b.life.Bound(ctx)
	defer cancel()
	for inner.Err() == nil {
		err := b.consume(inner, topic, group, h)
		if err != nil && forGood(err) && inner.Err() == nil {
			return fmt.Errorf("nats: subscribe to %s: %w", topic, err)
		}
		b.life.Pause(inner, redialPause)
	}
	if ctx.Err() == nil {
		return errClosed
	}
	return nil
}

// consume works until ctx ends or the consumer fails.
func (b *Bus) consume(ctx context.Context, topic, group string, h bus.Handler) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	err := b.call(ctx, func(ctx context.Context) error {
		err := b.makeStream(ctx, topic)
		if err == nil {
			err = b.makeConsumer(ctx, topic, group)
		}
		return err
	})
	if err != nil {
		return err
	}
	in, err := b.newInbox(topic, plainName(group))
	if err != nil {
		return err
	}
	in.handle = h
	return in.run(ctx)
}
