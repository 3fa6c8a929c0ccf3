package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/segmentio/kafka-go"

	"outboxplayground/core/bus"
)

// Prepare implements bus.Topology. It creates the topic, waits until every
// partition has a leader, and until the coordinator of each group answers (a new
// cluster has none until somebody asks). Groups need no creation: one that has
// committed nothing starts at the oldest record.
func (b *Bus) Prepare(ctx context.Context, topic string, groups ...string) error {
	leave, open := b.life.Enter()
	if !open {
		return errClosed
	}
	defer leave()
	name := b.cfg.Name(topic)
	if len(groups) == 0 {
		groups = []string{topic} // any name finds a coordinator
	}
	return b.insist(ctx, func() error {
		k, err := b.create(ctx, name)
		if err != nil {
			return err
		}
		b.layouts.set(name, k)
		for id, leader := range k.leaders { // it is named before it knows itself
			if _, _, err := b.bounds(ctx, leader, name, id); err != nil {
				return err
			}
		}
		for _, g := range groups {
			if _, err := b.committed(ctx, b.cfg.Name(g), name, k.ids); err != nil {
				return err
			}
		}
		return nil
	})
}

// create makes the topic unless it is there, and returns its layout.
func (b *Bus) create(ctx context.Context, name string) (*layout, error) {
	k, err := b.fresh(ctx, name)
	if errors.Is(err, kafka.UnknownTopicOrPartition) {
		if err := b.createTopic(ctx, name); err != nil {
			return nil, err
		}
		if k, err = b.fresh(ctx, name); errors.Is(err, kafka.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("kafka: topic %q is being created: %w", name, bus.ErrUnavailable)
		}
	}
	if err != nil {
		return nil, err
	}
	if !k.led() {
		return nil, fmt.Errorf("kafka: topic %q has partitions without a leader: %w", name, bus.ErrUnavailable)
	}
	return k, nil
}

func (b *Bus) createTopic(ctx context.Context, name string) error {
	return b.controller(ctx, func(a net.Addr) error {
		res, err := b.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Addr: a, Topics: []kafka.TopicConfig{{
			Topic: name, NumPartitions: b.opt.Partitions, ReplicationFactor: b.opt.ReplicationFactor,
		}}})
		if err != nil {
			return err
		}
		err = res.Errors[name]
		switch {
		case err == nil, errors.Is(err, kafka.TopicAlreadyExists):
			return nil
		case isFatal(err):
			return fmt.Errorf("%w: %w", bus.ErrRejected, err)
		}
		return err
	})
}

// Remove implements bus.Topology. Kafka does not delete a group that has members:
// they are put out, as kafka-consumer-groups' removeMembersFromConsumerGroup does,
// because those of a killed process would stay until their session ends. Members
// that live come back, and are waited for; so is the disappearance of the topic.
func (b *Bus) Remove(ctx context.Context, topic string, groups ...string) error {
	leave, open := b.life.Enter()
	if !open {
		return errClosed
	}
	defer leave()
	name := b.cfg.Name(topic)
	b.layouts.set(name, nil)
	if err := b.insist(ctx, func() error { return b.removeTopic(ctx, name) }); err != nil {
		return err
	}
	for _, g := range groups {
		if err := b.insist(ctx, func() error { return b.removeGroup(ctx, b.cfg.Name(g)) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bus) removeTopic(ctx context.Context, name string) error {
	err := b.controller(ctx, func(a net.Addr) error {
		res, err := b.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Addr: a, Topics: []string{name}})
		if err != nil {
			return err
		}
		return res.Errors[name]
	})
	if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
		return err
	}
	if _, err = b.fresh(ctx, name); err == nil {
		return fmt.Errorf("kafka: topic %q is still there: %w", name, bus.ErrUnavailable)
	}
	if errors.Is(err, kafka.UnknownTopicOrPartition) {
		return nil
	}
	return err
}

func (b *Bus) removeGroup(ctx context.Context, group string) error {
	a, err := b.coordinator(ctx, group)
	if err != nil {
		return err
	}
	res, err := b.client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{Addr: a, GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	err = res.Errors[group]
	if err == nil || errors.Is(err, kafka.GroupIdNotFound) {
		return nil
	}
	err = fmt.Errorf("kafka: group %q: %w", group, err)
	if errors.Is(err, kafka.NonEmptyGroup) {
		return errors.Join(err, b.putOut(ctx, a, group))
	}
	return err
}

// putOut makes every member leave a group.
func (b *Bus) putOut(ctx context.Context, a net.Addr, group string) error {
	res, err := b.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{Addr: a, GroupIDs: []string{group}})
	if err != nil || len(res.Groups) != 1 {
		return err
	}
	var members []kafka.LeaveGroupRequestMember
	for _, m := range res.Groups[0].Members {
		members = append(members, kafka.LeaveGroupRequestMember{ID: m.MemberID})
	}
	if len(members) == 0 {
		return res.Groups[0].Error
	}
	_, err = b.client.LeaveGroup(ctx, &kafka.LeaveGroupRequest{Addr: a, GroupID: group, Members: members})
	return err
}

// controller puts a question to the controller, or to the broker that speaks for it.
func (b *Bus) controller(ctx context.Context, question func(net.Addr) error) error {
	return b.ask(ctx, func(a net.Addr) error {
		res, err := b.client.Metadata(ctx, &kafka.MetadataRequest{Addr: a, Topics: []string{}})
		if err != nil {
			return err
		}
		if c := res.Controller; c.Host != "" {
			a = kafka.TCP(net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
		}
		return question(a)
	})
}

// coordinator finds the broker that keeps a group.
func (b *Bus) coordinator(ctx context.Context, group string) (net.Addr, error) {
	var found net.Addr
	err := b.ask(ctx, func(a net.Addr) error {
		res, err := b.client.FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Addr: a, Key: group})
		if err != nil {
			return err
		}
		if res.Error != nil {
			return fmt.Errorf("kafka: coordinator of %q: %w", group, res.Error)
		}
		c := res.Coordinator
		found = kafka.TCP(net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
		return nil
	})
	return found, err
}

// insist repeats f until it succeeds, is refused for good, or ctx ends.
func (b *Bus) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || errors.Is(err, bus.ErrRejected) {
			return err
		}
		if !b.life.Pause(ctx, retryPause) {
			return fmt.Errorf("kafka: gave up (%v): %w", context.Cause(ctx), err)
		}
	}
}
