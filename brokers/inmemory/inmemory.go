// Package inmemory is a bus without a broker: queues in the memory of this
// process. It forgets everything when the process ends or the bus is closed, so
// an accepted message is only as safe as the process that accepted it.
//
// What it promises while the process lives:
//
//   - Accepted means that every group of the topic has the message in its queue.
//     All groups get it or none does.
//   - At least once: a handler error brings the message back after a short pause,
//     and a cancelled subscription gives back the message in its hand.
//   - One topic arrives in the order of publishing, except that a message whose
//     handler failed is overtaken while it pauses.
//   - A group has to exist before the publish: there is no log to read later.
//   - Queues are bounded. A full one is ErrUnavailable and keeps nothing of that
//     message; a topic that nobody prepared, or that has no group, is ErrRejected.
//
// Each Open makes a bus of its own; two buses never see each other's messages.
package inmemory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"outboxplayground/core/bus"
)

// Options bounds the bus. The zero value works.
type Options struct {
	// Capacity is how many unacknowledged messages a group may have before a
	// publish to its topic answers ErrUnavailable. Default: 10,000.
	Capacity int
	// MaxBytes is the largest payload; a larger one is ErrRejected. Default: 16 MiB.
	MaxBytes int
	// RedeliveryDelay is the pause between a handler's error and the next
	// delivery. Default: 50 ms.
	RedeliveryDelay time.Duration
}

func (o Options) withDefaults() Options {
	if o.Capacity <= 0 {
		o.Capacity = 10_000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 16 << 20
	}
	if o.RedeliveryDelay <= 0 {
		o.RedeliveryDelay = 50 * time.Millisecond
	}
	return o
}

var (
	_ bus.Bus        = (*Bus)(nil)
	_ bus.Topology   = (*Bus)(nil)
	_ bus.Backlogger = (*Bus)(nil)
)

// Bus implements bus.Bus, bus.Topology and bus.Backlogger. It is safe for
// concurrent use and starts no goroutine of its own.
type Bus struct {
	cfg bus.Config
	opt Options

	mu     sync.Mutex
	closed bool
	topics map[string]map[string]*queue // full topic name, then group
	seq    uint64                       // numbers messages in the order of acceptance
	subs   map[*subscription]struct{}   // living ones, so that Close can end them
}

// Open makes an empty bus. Of the config it uses the prefix; URL and Dial have
// no meaning here, and MaxUnacked is kept by taking one message at a time.
func Open(_ context.Context, cfg bus.Config, opt Options) (*Bus, error) {
	return &Bus{
		cfg:    cfg.WithDefaults(),
		opt:    opt.withDefaults(),
		subs:   map[*subscription]struct{}{},
		topics: map[string]map[string]*queue{},
	}, nil
}

// Publish puts each message into the queue of every group of its topic. It never
// waits, so the context matters only if it has ended already.
func (b *Bus) Publish(ctx context.Context, msgs ...bus.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	outcomes := make([]error, len(msgs))
	for i, m := range msgs {
		outcomes[i] = b.accept(ctx, m)
	}
	return bus.Join(outcomes)
}

// accept checks everything before it stores anything: that is what makes
// ErrUnavailable and ErrRejected true statements.
func (b *Bus) accept(ctx context.Context, m bus.Message) error {
	if b.closed {
		return fmt.Errorf("inmemory: closed: %w", bus.ErrUnavailable)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("inmemory: %w: %w", bus.ErrUnavailable, err)
	}
	if len(m.Payload) > b.opt.MaxBytes {
		return fmt.Errorf("inmemory: %w: %d bytes, the limit is %d",
			bus.ErrRejected, len(m.Payload), b.opt.MaxBytes)
	}
	groups := b.topics[b.cfg.Name(m.Topic)]
	if len(groups) == 0 {
		return fmt.Errorf("inmemory: %w: topic %q has no group", bus.ErrRejected, m.Topic)
	}
	for name, q := range groups {
		if q.backlog() >= b.opt.Capacity {
			return fmt.Errorf("inmemory: %w: queue of group %q is full (%d messages)",
				bus.ErrUnavailable, name, b.opt.Capacity)
		}
	}
	b.seq++
	kept := entry{seq: b.seq, msg: clone(m)}
	for _, q := range groups {
		q.put(kept)
	}
	return nil
}

// Prepare makes the topic and its groups; what exists keeps its messages.
func (b *Bus) Prepare(_ context.Context, topic string, groups ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("inmemory: closed: %w", bus.ErrUnavailable)
	}
	for _, g := range groups {
		b.queue(topic, g)
	}
	if len(groups) == 0 && b.topics[b.cfg.Name(topic)] == nil {
		b.topics[b.cfg.Name(topic)] = map[string]*queue{}
	}
	return nil
}

// Remove forgets the topic and all its groups, whichever are named, with all
// that they hold. A living subscription makes its own group anew.
func (b *Bus) Remove(_ context.Context, topic string, _ ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.topics[b.cfg.Name(topic)] {
		q.signal()
	}
	delete(b.topics, b.cfg.Name(topic))
	return nil
}

// Backlog counts what the group has not acknowledged: waiting, pausing after an
// error, and in a handler's hands.
func (b *Bus) Backlog(_ context.Context, topic, group string) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.topics[b.cfg.Name(topic)][group]
	if q == nil {
		return 0, nil
	}
	return int64(q.backlog()), nil
}

// Close ends the subscriptions and forgets all messages. It does not wait for
// the handlers: Subscribe returns when its handler has.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.topics = map[string]map[string]*queue{}
	for s := range b.subs {
		s.cancel()
	}
	return nil
}

// queue returns the queue of a group and makes it if need be. Call it locked.
func (b *Bus) queue(topic, group string) *queue {
	name := b.cfg.Name(topic)
	if b.topics[name] == nil {
		b.topics[name] = map[string]*queue{}
	}
	if b.topics[name][group] == nil {
		b.topics[name][group] = newQueue()
	}
	return b.topics[name][group]
}
