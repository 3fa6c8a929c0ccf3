package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"outboxplayground/core/bus"
)

// blamesOne says whether a broker refused a batch because of some record in it.
func blamesOne(err error) bool {
	return isAny(err, kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.InvalidRecord)
}

// explain gives the error of a produce request its class. What the broker's codes
// mean for a request with acks=all (org.apache.kafka.common.protocol.Errors and
// the broker's ReplicaManager):
//
//   - too large, invalid record, invalid topic, not authorised, policy violation:
//     never stored and never will be: rejected.
//   - NOT_ENOUGH_REPLICAS: checked before the append, nothing stored: unavailable.
//   - UNKNOWN_TOPIC_OR_PARTITION: rejected if fresh metadata says so too.
//   - NOT_LEADER_OR_FOLLOWER looks harmless, but is also the answer when leadership
//     moved away while the broker waited for its replicas, after the append. It and
//     NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, a storage error and
//     everything else: ambiguous.
func (b *Bus) explain(ctx context.Context, t batch, err error) error {
	b.layouts.set(t.topic, nil)
	err = fmt.Errorf("kafka: topic %q partition %d: %w", t.topic, t.partition, err)
	switch {
	case errors.Is(err, bus.ErrUnavailable):
		return err
	case errors.Is(err, kafka.NotEnoughReplicas):
		return fmt.Errorf("%w: %w", bus.ErrUnavailable, err)
	case isFatal(err):
		return fmt.Errorf("%w: %w", bus.ErrRejected, err)
	case errors.Is(err, kafka.UnknownTopicOrPartition):
		if _, again := b.fresh(ctx, t.topic); errors.Is(again, bus.ErrRejected) {
			return again
		}
	}
	return err
}

func isFatal(err error) bool {
	return blamesOne(err) || isAny(err, kafka.InvalidTopic, kafka.TopicAuthorizationFailed,
		kafka.ClusterAuthorizationFailed, kafka.PolicyViolation, kafka.InvalidTimestamp,
		kafka.UnsupportedForMessageFormat)
}

func isAny(err error, codes ...kafka.Error) bool {
	for _, code := range codes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
