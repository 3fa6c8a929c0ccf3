package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"outboxplayground/core/bus"
)

const (
	// block is how long a read waits for entries. go-redis does not interrupt it
	// when the context is cancelled.
	block = 500 * time.Millisecond
	// slack is what a command may take beyond that.
	slack = time.Second
	// goodbye bounds the clean-up of a subscription that ends.
	goodbye = time.Second
	// troublePause is the pace of attempts while something is wrong.
	troublePause = 200 * time.Millisecond
	// memberPool: the reader, and the goroutine that keeps its entries its own.
	memberPool = 3
)

// member is one subscription: a consumer of its own name in the group, on
// connections of its own, because a blocking read occupies one.
type member struct {
	bus       *Bus
	client    *redis.Client
	topic     string // without the prefix
	stream    string
	group     string
	name      string
	handler   bus.Handler
	handled   map[string]bool // handled, acknowledgement not yet answered
	mine      bool            // entries may be assigned to us that we have not seen
	nextClaim time.Time
}

// Subscribe implements bus.Bus. A message whose handler failed is handed to it
// again after 100 ms, before any other.
func (b *Bus) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	if b.life.Over() {
		return errClosed
	}
	inner, cancel := b.life.Bound(ctx)
	defer cancel()
	m := &member{
		bus: b, client: b.connect(memberPool), handler: h, topic: topic,
		stream: b.cfg.Name(topic), group: b.cfg.Name(group),
		name: uuid.NewString(), handled: make(map[string]bool),
	}
	defer m.client.Close()
	m.run(inner)
	m.leave(inner)
	if ctx.Err() != nil {
		return nil
	}
	return errClosed
}

// run reads and handles until ctx ends.
func (m *member) run(ctx context.Context) {
	for ctx.Err() == nil {
		entries, err := m.next(ctx)
		if ctx.Err() != nil {
			return // what was just read goes back in leave
		}
		if err == nil {
			err = m.work(ctx, entries)
		}
		if err == nil {
			continue
		}
		m.mine = true // a read whose answer was lost has assigned entries all the same
		if code(err) == "NOGROUP" {
			_ = createGroup(ctx, m.client, m.stream, m.group)
		}
		m.bus.life.Pause(ctx, troublePause)
	}
}

// next returns the next entries to handle: our own that we have lost sight of,
// those of dead consumers, new ones. None is no error.
func (m *member) next(ctx context.Context) ([]redis.XMessage, error) {
	if err := m.ack(ctx); err != nil {
		return nil, err
	}
	if m.mine {
		entries, err := m.read(ctx, "0")
		m.mine = err != nil || len(entries) > 0
		if err != nil || len(entries) > 0 {
			return entries, err
		}
	}
	if now := time.Now(); now.After(m.nextClaim) {
		m.nextClaim = now.Add(m.bus.opt.ClaimIdle / 5)
		entries, err := m.claim(ctx)
		if err != nil || len(entries) > 0 {
			m.nextClaim = time.Time{} // there may be more
			return entries, err
		}
	}
	return m.read(ctx, ">")
}

// read asks for new entries (">") or for our own unacknowledged ones ("0").
func (m *member) read(ctx context.Context, from string) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, block+slack)
	defer cancel()
	streams, err := m.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: m.group, Consumer: m.name, Streams: []string{m.stream, from},
		Count: int64(m.bus.cfg.MaxUnacked), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) || len(streams) == 0 {
		return nil, notNil(err)
	}
	return streams[0].Messages, err
}

// claim takes over entries that have been idle for ClaimIdle.
func (m *member) claim(ctx context.Context) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	entries, _, err := m.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: m.stream, Group: m.group, Consumer: m.name, Start: "0",
		MinIdle: m.bus.opt.ClaimIdle, Count: int64(m.bus.cfg.MaxUnacked),
	}).Result()
	return entries, notNil(err)
}

// notNil takes away the error that only means "nothing there".
func notNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// createGroup makes a group at the beginning of a stream, and the stream.
func createGroup(ctx context.Context, c *redis.Client, stream, group string) error {
	err := c.XGroupCreateMkStream(ctx, stream, group, "0").Err()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil
	}
	return err
}
