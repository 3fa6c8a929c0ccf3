package main

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

// The fields in which the two peers put the payload.
const ownField, watermillField = "data", "payload"

func openRedis(url, name string) (*target, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("REDIS_URL must be redis://host:port")
	}
	c := redis.NewClient(o)
	return &target{
		name: name,
		publish: func(ctx context.Context, payload []byte) error {
			return c.XAdd(ctx, &redis.XAddArgs{Stream: name, Values: []any{ownField, payload}}).Err()
		},
		watermill: func() (message.Publisher, error) {
			return redisstream.NewPublisher(redisstream.PublisherConfig{Client: c}, watermill.NopLogger{})
		},
		read:   func(ctx context.Context, got func([]byte)) error { return readEntries(ctx, c, name, got) },
		remove: func(ctx context.Context) error { return errors.Join(ignoreClosed(c.Del(ctx, name).Err()), c.Close()) },
	}, nil
}

// ignoreClosed: watermill's publisher has closed the client that it was lent.
func ignoreClosed(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}

func readEntries(ctx context.Context, c *redis.Client, stream string, got func([]byte)) error {
	for from := "-"; ; {
		page, err := c.XRangeN(ctx, stream, from, "+", 1000).Result()
		if err != nil || len(page) == 0 {
			return err
		}
		for _, x := range page {
			raw, ok := x.Values[ownField].(string)
			if !ok {
				raw, _ = x.Values[watermillField].(string)
			}
			got([]byte(raw))
		}
		from = "(" + page[len(page)-1].ID
	}
}

// setFsync changes when the append-only file is synced, and returns a function that
// puts back what was there.
func setFsync(ctx context.Context, url, when string) (back func() error, err error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("REDIS_URL must be redis://host:port")
	}
	c := redis.NewClient(o)
	was, err := c.ConfigGet(ctx, "appendfsync").Result()
	if err == nil {
		err = c.ConfigSet(ctx, "appendfsync", when).Err()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return func() error {
		return errors.Join(c.ConfigSet(context.WithoutCancel(ctx), "appendfsync", was["appendfsync"]).Err(), c.Close())
	}, nil
}
