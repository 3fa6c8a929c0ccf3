package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"outboxplayground/core/bus"
)

// Backlog implements bus.Backlogger: over all partitions, the records after the
// group's committed offset. A group that has committed nothing, or an offset that
// the log no longer has, has everything before it.
func (b *Bus) Backlog(ctx context.Context, topic, group string) (int64, error) {
	leave, open := b.life.Enter()
	if !open {
		return 0, errClosed
	}
	defer leave()
	name := b.cfg.Name(topic)
	k, err := b.fresh(ctx, name)
	if err != nil {
		return 0, err
	}
	committed, err := b.committed(ctx, b.cfg.Name(group), name, k.ids)
	if err != nil {
		return 0, err
	}
	var total int64
	for id, leader := range k.leaders {
		first, last, err := b.bounds(ctx, leader, name, id)
		if err != nil {
			return 0, err
		}
		from, ok := committed[id]
		if !ok || from < first || from > last {
			from = first
		}
		total += last - from
	}
	return total, nil
}

// committed returns the offsets that a group has committed; a partition without
// one is absent.
func (b *Bus) committed(ctx context.Context, group, topic string, ids []int) (map[int]int64, error) {
	a, err := b.coordinator(ctx, group)
	if err != nil {
		return nil, err
	}
	res, err := b.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		Addr: a, GroupID: group, Topics: map[string][]int{topic: ids},
	})
	if err != nil {
		return nil, err
	}
	if errors.Is(res.Error, kafka.GroupIdNotFound) {
		return nil, nil // how some brokers say that a group has committed nothing
	}
	if res.Error != nil {
		return nil, fmt.Errorf("kafka: group %q: %w", group, res.Error)
	}
	offsets := make(map[int]int64)
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("kafka: group %q: %w", group, p.Error)
		}
		if p.CommittedOffset >= 0 {
			offsets[p.Partition] = p.CommittedOffset
		}
	}
	return offsets, nil
}

// bounds returns the first offset of a partition and the one after its last.
func (b *Bus) bounds(ctx context.Context, leader, topic string, id int) (first, last int64, err error) {
	if leader == "" {
		return 0, 0, fmt.Errorf("kafka: topic %q partition %d has no leader: %w", topic, id, bus.ErrUnavailable)
	}
	res, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Addr:   kafka.TCP(leader),
		Topics: map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(id), kafka.LastOffsetOf(id)}},
	})
	if err != nil {
		return 0, 0, err
	}
	if len(res.Topics[topic]) != 1 {
		return 0, 0, fmt.Errorf("kafka: topic %q partition %d: no answer", topic, id)
	}
	p := res.Topics[topic][0]
	return p.FirstOffset, p.LastOffset, p.Error
}
