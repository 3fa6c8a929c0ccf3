package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"outboxplayground/core/bus"
)

// batch is what one call publishes to one partition, in the order of the call.
type batch struct {
	topic     string // its name on the broker
	partition int
	leader    string
	at        []int // positions in the call
}

type place struct {
	topic     string
	partition int
}

type answer struct {
	layout *layout
	err    error
}

// Publish implements bus.Bus. Each partition gets its own request, all at once; a
// batch larger than Options.MaxBytes goes out in several, one after the other, and
// stops at the first that fails, so that the order of a key is kept.
func (b *Bus) Publish(ctx context.Context, msgs ...bus.Message) error {
	leave, open := b.life.Enter()
	if !open {
		return errClosed
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, b.opt.Timeout)
	defer cancel()
	outcomes := make([]error, len(msgs))
	var sending sync.WaitGroup
	for _, t := range b.route(ctx, msgs, outcomes) {
		sending.Go(func() { b.sendBatch(ctx, *t, msgs, outcomes) })
	}
	sending.Wait()
	return bus.Join(outcomes)
}

// route sorts the messages by partition. One that has nowhere to go gets its
// outcome here.
func (b *Bus) route(ctx context.Context, msgs []bus.Message, outcomes []error) map[place]*batch {
	batches := make(map[place]*batch)
	asked := make(map[string]answer) // once a call, or a dead broker is dialled for each message
	for i, m := range msgs {
		if n := batchOverhead + size(m); n > b.opt.MaxBytes {
			outcomes[i] = fmt.Errorf("kafka: %d bytes exceed the limit of %d: %w", n, b.opt.MaxBytes, bus.ErrRejected)
			continue
		}
		topic := b.cfg.Name(m.Topic)
		if _, ok := asked[topic]; !ok {
			k, err := b.lookup(ctx, topic)
			asked[topic] = answer{k, err}
		}
		k, err := asked[topic].layout, asked[topic].err
		if err != nil {
			outcomes[i] = err
			continue
		}
		at := place{topic, partition(m, k.ids)}
		if batches[at] == nil {
			batches[at] = &batch{topic: topic, partition: at.partition, leader: k.leaders[at.partition]}
		}
		batches[at].at = append(batches[at].at, i)
	}
	return batches
}

// sendBatch sends one partition's messages in requests of at most MaxBytes.
func (b *Bus) sendBatch(ctx context.Context, t batch, msgs []bus.Message, outcomes []error) {
	var failed error
	for rest := t.at; len(rest) > 0; {
		n := b.fit(rest, msgs)
		part := t
		part.at, rest = rest[:n], rest[n:]
		if failed == nil {
			failed = b.send(ctx, part, msgs, outcomes)
			continue
		}
		for _, i := range part.at {
			outcomes[i] = fmt.Errorf("kafka: not sent, an earlier message failed: %w", bus.ErrUnavailable)
		}
	}
}

// fit says how many of the messages go into one request; at least one.
func (b *Bus) fit(at []int, msgs []bus.Message) int {
	total := batchOverhead
	for n, i := range at {
		if total += size(msgs[i]); total > b.opt.MaxBytes && n > 0 {
			return n
		}
	}
	return len(at)
}

// send publishes one request. A broker refuses a batch as a whole when one of its
// records is at fault, so a refused batch is halved until the culprit is alone.
// The error returned is that of a broker in trouble; a refusal of single messages
// is none.
func (b *Bus) send(ctx context.Context, t batch, msgs []bus.Message, outcomes []error) error {
	err := b.produce(ctx, t, msgs)
	if blamesOne(err) && len(t.at) > 1 {
		left, right := t, t
		left.at, right.at = t.at[:len(t.at)/2], t.at[len(t.at)/2:]
		failed := b.send(ctx, left, msgs, outcomes)
		if failed == nil {
			return b.send(ctx, right, msgs, outcomes)
		}
		for _, i := range right.at {
			outcomes[i] = fmt.Errorf("kafka: not sent, an earlier message failed: %w", bus.ErrUnavailable)
		}
		return failed
	}
	if err == nil {
		return nil
	}
	err = b.explain(ctx, t, err)
	for _, i := range t.at {
		outcomes[i] = err
	}
	if errors.Is(err, bus.ErrRejected) {
		return nil
	}
	return err
}

func (b *Bus) produce(ctx context.Context, t batch, msgs []bus.Message) error {
	if t.leader == "" {
		return fmt.Errorf("partition has no leader: %w", bus.ErrUnavailable)
	}
	now := time.Now()
	records := make([]kafka.Record, len(t.at))
	for n, i := range t.at {
		records[n] = record(msgs[i], now)
	}
	res, err := b.client.Produce(ctx, &kafka.ProduceRequest{
		Addr: kafka.TCP(t.leader), Topic: t.topic, Partition: t.partition,
		RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
	})
	if err != nil {
		return err
	}
	return res.Error
}
