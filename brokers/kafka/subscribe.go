package kafka

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/segmentio/kafka-go"

	"outboxplayground/core/bus"
)

// The pace of a group. A killed member's partitions move after sessionTimeout; a
// joining member waits at most heartbeat for the others to notice it.
const (
	sessionTimeout   = 6 * time.Second
	rebalanceTimeout = 6 * time.Second
	heartbeat        = 500 * time.Millisecond
	partitionWatch   = time.Second
	joinBackoff      = 200 * time.Millisecond
	coordinatorLimit = 3 * time.Second
	topicWait        = 250 * time.Millisecond
	// leaveLimit is what a subscription spends on leaving its group politely.
	leaveLimit = time.Second
)

// subscription is one member of a group.
type subscription struct {
	bus     *Bus
	topic   string // without the prefix
	handler bus.Handler
	turn    chan struct{} // holds a token while the handler runs: one at a time
	conns   connSet       // to the coordinator
}

// Subscribe implements bus.Bus. A message whose handler failed is handed to it
// again after 100 ms, and nothing behind it in its partition before that. While
// the topic does not exist it waits for it.
func (b *Bus) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	if b.life.Over() {
		return errClosed
	}
	inner, cancel := b.life.Bound(ctx)
	defer cancel()
	s := &subscription{bus: b, topic: topic, handler: h, turn: make(chan struct{}, 1)}
	err := s.run(inner, b.cfg.Name(group))
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	return errClosed
}

// run is a member of the group until ctx ends, generation after generation.
func (s *subscription) run(ctx context.Context, group string) error {
	member, err := kafka.NewConsumerGroup(s.config(group))
	if err != nil {
		return err
	}
	defer func() {
		cut := time.AfterFunc(leaveLimit, s.conns.close)
		member.Close() // waits for the handler in progress, commits it, leaves
		cut.Stop()
		s.conns.close()
	}()
	for s.awaitTopic(ctx) {
		gen, err := member.Next(ctx)
		if err != nil {
			if !s.bus.life.Pause(ctx, retryPause) {
				return nil
			}
			continue
		}
		mine := gen.Assignments[s.bus.cfg.Name(s.topic)]
		for _, p := range mine {
			gen.Start(s.consume(ctx, gen, p, len(mine)))
		}
	}
	return nil
}

func (s *subscription) config(group string) kafka.ConsumerGroupConfig {
	return kafka.ConsumerGroupConfig{
		ID: group, Brokers: s.bus.brokers, Topics: []string{s.bus.cfg.Name(s.topic)},
		Dialer:            s.dialer(&s.conns),
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: heartbeat, SessionTimeout: sessionTimeout,
		RebalanceTimeout: rebalanceTimeout, JoinGroupBackoff: joinBackoff,
		WatchPartitionChanges: true, PartitionWatchInterval: partitionWatch,
		StartOffset: kafka.FirstOffset, Timeout: coordinatorLimit,
	}
}

func (s *subscription) dialer(set *connSet) *kafka.Dialer {
	return &kafka.Dialer{
		ClientID: "outbox", Timeout: dialLimit,
		DialFunc: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return set.dial(ctx, s.bus.cfg.Dial, network, addr)
		},
	}
}

// awaitTopic waits while the brokers say that the topic does not exist: a member
// of a group without partitions would rebalance in circles. It says whether to go on.
func (s *subscription) awaitTopic(ctx context.Context) bool {
	for {
		_, err := s.bus.fresh(ctx, s.bus.cfg.Name(s.topic))
		if !errors.Is(err, bus.ErrRejected) {
			return ctx.Err() == nil
		}
		if !s.bus.life.Pause(ctx, topicWait) {
			return false
		}
	}
}
