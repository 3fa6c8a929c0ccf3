package redis

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"outboxplayground/core/bus"
)

// firstGroup makes a stream exist that is given no group: Redis has no other way
// to create an empty one.
const firstGroup = "outbox-first"

// Prepare implements bus.Topology: XGROUP CREATE with MKSTREAM, from the stream's
// beginning.
func (b *Bus) Prepare(ctx context.Context, topic string, groups ...string) error {
	leave, open := b.life.Enter()
	if !open {
		return errClosed
	}
	defer leave()
	stream := b.cfg.Name(topic)
	return b.insist(ctx, func() error {
		if len(groups) == 0 {
			if err := createGroup(ctx, b.client, stream, firstGroup); err != nil {
				return err
			}
			return b.client.XGroupDestroy(ctx, stream, firstGroup).Err()
		}
		for _, g := range groups {
			if err := createGroup(ctx, b.client, stream, b.cfg.Name(g)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Remove implements bus.Topology. The groups of a stream go with it. A
// subscription that is still on makes an empty stream again.
func (b *Bus) Remove(ctx context.Context, topic string, groups ...string) error {
	leave, open := b.life.Enter()
	if !open {
		return errClosed
	}
	defer leave()
	return b.insist(ctx, func() error { return b.client.Unlink(ctx, b.cfg.Name(topic)).Err() })
}

// insist repeats f until it succeeds, is refused for good, or ctx ends.
func (b *Bus) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		switch code(err) {
		case "WRONGTYPE", "NOPERM", "WRONGPASS":
			return fmt.Errorf("redis: %w: %w", bus.ErrRejected, err)
		}
		if err == nil {
			return nil
		}
		if !b.life.Pause(ctx, retryPause) {
			return fmt.Errorf("redis: gave up (%v): %w: %w", context.Cause(ctx), bus.ErrUnavailable, err)
		}
	}
}

// Backlog implements bus.Backlogger: the entries not yet delivered to the group
// and those delivered and not acknowledged. While a delivery is under way it may
// count an entry twice, never miss one.
func (b *Bus) Backlog(ctx context.Context, topic, group string) (int64, error) {
	leave, open := b.life.Enter()
	if !open {
		return 0, errClosed
	}
	defer leave()
	stream := b.cfg.Name(topic)
	waiting, exists, err := b.undelivered(ctx, stream, b.cfg.Name(group))
	if err != nil || !exists {
		return waiting, backlogError(err)
	}
	pending, err := b.client.XPending(ctx, stream, b.cfg.Name(group)).Result()
	if err != nil {
		return 0, backlogError(err)
	}
	return waiting + pending.Count, nil
}

func backlogError(err error) error {
	switch {
	case err == nil || errors.Is(err, bus.ErrRejected):
		return err
	case code(err) == "":
		return fmt.Errorf("redis: %w: %w", bus.ErrUnavailable, err)
	}
	return fmt.Errorf("redis: %w", err)
}

// undelivered counts the entries after the group's position. A group that does not
// exist will start at the beginning.
func (b *Bus) undelivered(ctx context.Context, stream, group string) (n int64, exists bool, err error) {
	groups, err := b.client.XInfoGroups(ctx, stream).Result()
	if code(err) == "ERR" { // "no such key"
		return 0, false, fmt.Errorf("redis: no stream %q: %w", stream, bus.ErrRejected)
	}
	if err != nil {
		return 0, false, err
	}
	for _, g := range groups {
		switch {
		case g.Name != group:
			continue
		case g.EntriesRead > 0 && g.Lag >= 0: // Redis 7 keeps count, unless entries were deleted
			n, err = b.lagging(ctx, stream, g)
			return n, true, err
		}
		n, err = b.countAfter(ctx, stream, g.LastDeliveredID)
		return n, true, err
	}
	n, err = b.client.XLen(ctx, stream).Result()
	return n, false, err
}

// lagging is the server's own count, or 0 where nothing stands behind the group's
// position. A server that has rewritten its append-only file and is started again has
// forgotten what the group has read since (7.0.15): its count stays too high for ever.
func (b *Bus) lagging(ctx context.Context, stream string, g goredis.XInfoGroup) (int64, error) {
	if g.Lag == 0 {
		return 0, nil
	}
	next, err := b.client.XRangeN(ctx, stream, "("+g.LastDeliveredID, "+", 1).Result()
	if err != nil || len(next) == 0 {
		return 0, err
	}
	return g.Lag, nil
}

// countAfter counts the entries after an ID, page by page, where the server does
// not know the number itself (before version 7, the double, deleted entries).
func (b *Bus) countAfter(ctx context.Context, stream, id string) (int64, error) {
	const page = 1000
	if id == "0-0" {
		return b.client.XLen(ctx, stream).Result()
	}
	var n int64
	for {
		entries, err := b.client.XRangeN(ctx, stream, "("+id, "+", page).Result()
		if err != nil {
			return 0, err
		}
		n += int64(len(entries))
		if len(entries) < page {
			return n, nil
		}
		id = entries[page-1].ID
	}
}
