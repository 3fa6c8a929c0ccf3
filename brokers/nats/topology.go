package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"outboxplayground/core/bus"
)

// callTime bounds one call to the server's API.
const callTime = 2 * time.Second

// Prepare makes the stream of the topic and a durable consumer for each group; see
// bus.Topology.
func (b *Bus) Prepare(ctx context.Context, topic string, groups ...string) error {
	return b.insist(ctx, "prepare", func(ctx context.Context) error {
		err := b.makeStream(ctx, topic)
		for _, group := range groups {
			if err == nil {
				err = b.makeConsumer(ctx, topic, group)
			}
		}
		return err
	}, topic, groups)
}

// Remove deletes the stream with all its groups, named or not; see bus.Topology. End
// the subscriptions first: one that lives on makes the stream again.
func (b *Bus) Remove(ctx context.Context, topic string, groups ...string) error {
	return b.insist(ctx, "remove", func(ctx context.Context) error {
		err := b.checkStream(ctx, topic)
		if err == nil {
			err = b.js.DeleteStream(ctx, b.stream(topic))
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	}, topic, groups)
}

// insist tries until it succeeds, ctx ends, or the server says that it is wrong.
func (b *Bus) insist(ctx context.Context, what string, do func(context.Context) error, topic string, groups []string) error {
	if err := checkNames(topic, groups...); err != nil {
		return err
	}
	ctx, cancel := b.life.Bound(ctx)
	defer cancel()
	for {
		err := b.ready(ctx)
		if err == nil {
			err = b.call(ctx, do)
		}
		switch {
		case err == nil:
			return nil
		case b.life.Over():
			return errClosed
		case forGood(err):
			return fmt.Errorf("nats: %s %s: %w", what, topic, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%w: nats: %s %s: %w: %w", bus.ErrUnavailable, what, topic, ctx.Err(), err)
		}
		b.life.Pause(ctx, redialPause)
	}
}

func (b *Bus) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return do(ctx)
}

// errTaken is what no repetition can mend, like an answer with status 400.
var errTaken = errors.New("another subject has a stream of this name")

func forGood(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, errTaken) || errors.As(err, &api) && api.Code == 400
}

// makeStream makes the stream, or leaves the one that exists as it is.
func (b *Bus) makeStream(ctx context.Context, topic string) error {
	_, err := b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: b.stream(topic), Subjects: []string{b.subject(topic)},
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		Duplicates: b.opts.DedupeWindow,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return b.checkStream(ctx, topic)
	}
	return err
}

// checkStream makes sure that the stream of this name is the topic's own.
func (b *Bus) checkStream(ctx context.Context, topic string) error {
	s, err := b.js.Stream(ctx, b.stream(topic))
	if err != nil {
		return err
	}
	if subjects := s.CachedInfo().Config.Subjects; len(subjects) != 1 || subjects[0] != b.subject(topic) {
		return fmt.Errorf("%w: %v", errTaken, subjects)
	}
	return nil
}

// makeConsumer makes the durable consumer of a group, or finds it. The number of
// unacknowledged messages is bounded for each subscription where they are fetched:
// the server's own bound is for the whole group, and one slow member would use it up.
func (b *Bus) makeConsumer(ctx context.Context, topic, group string) error {
	name := plainName(group)
	_, err := b.js.CreateConsumer(ctx, b.stream(topic), jetstream.ConsumerConfig{
		Durable: name, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: b.opts.AckWait,
		MaxDeliver: -1, MaxAckPending: -1,
	})
	if errors.Is(err, jetstream.ErrConsumerExists) || errors.Is(err, jetstream.ErrConsumerNameAlreadyInUse) {
		_, err = b.js.Consumer(ctx, b.stream(topic), name)
	}
	return err
}

// Backlog returns how many messages of the stream the group has not acknowledged:
// waiting and held by consumers, in whatever process. ErrUnavailable when not connected.
// It compares positions: the server's own count of what waits for a consumer (NumPending)
// comes some time after it has told the producer that the message is stored. A message
// that somebody has deleted from the stream counts until the group has passed it.
func (b *Bus) Backlog(ctx context.Context, topic, group string) (int64, error) {
	err := checkNames(topic, group)
	if err == nil {
		err = b.ready(ctx)
	}
	if err != nil {
		return 0, err
	}
	ctx, cancel := b.life.Bound(ctx)
	defer cancel()
	last, info, err := b.positions(ctx, topic, group)
	if err != nil {
		return 0, fmt.Errorf("nats: backlog of %s for %s: %w", topic, group, err)
	}
	waiting := int64(last) - int64(info.Delivered.Stream)
	return max(waiting, 0) + int64(info.NumAckPending), nil // less than 0: published in between
}

// positions returns the last position of the stream, and then those of the group.
func (b *Bus) positions(ctx context.Context, topic, group string) (uint64, *jetstream.ConsumerInfo, error) {
	s, err := b.js.Stream(ctx, b.stream(topic))
	if err != nil {
		return 0, nil, err
	}
	c, err := s.Consumer(ctx, plainName(group))
	if err != nil {
		return 0, nil, err
	}
	return s.CachedInfo().State.LastSeq, c.CachedInfo(), nil
}
