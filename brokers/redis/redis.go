// Package redis carries messages over Redis Streams.
//
// Accepted means that XADD answered with an entry's ID. The server has the entry
// in memory then; whether it survives the server is the server's setting, not this
// driver's: without an append-only file a restart forgets everything, with
// appendfsync everysec a power failure forgets up to a second, with always
// nothing (a SIGKILL of the server alone loses nothing that was written). Nothing
// is ever trimmed: MAXLEN would delete entries that nobody has read.
//
// A topic is one stream. An entry has the fields "id", "key" and "payload" and one
// field "h:NAME" for each header, all byte for byte. A publish never creates the
// stream (NOMKSTREAM), because a stream without groups is a box without a reader.
//
// A subscription is a consumer of its own in the group. It reads at most
// MaxUnacked entries ahead, hands them over one by one and acknowledges each.
// Entries left behind by a dead consumer go to another one as soon as they have
// been idle for Options.ClaimIdle; a living consumer keeps its own from getting
// idle, however slow its handler, and hands the rest back when it ends. Order is
// the order of the stream as long as one consumer reads and none dies.
//
// A stream or group that disappears (the server lost its data) is made anew by the
// subscription, from the stream's beginning.
package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"outboxplayground/core/bus"
)

// Options are what only Redis knows. The zero value of each field is usable.
type Options struct {
	// MaxBytes bounds one message: ID, key, payload and headers together. A larger
	// one is ErrRejected without being sent. It must stay below the server's
	// proto-max-bulk-len (512 MiB), at which the server hangs up. Default: 16 MiB.
	MaxBytes int
	// ClaimIdle is how long an entry is idle before it counts as its dead
	// consumer's. Default: 5 s.
	ClaimIdle time.Duration
	// Timeout bounds a Publish whose context has no earlier deadline. Default: 10 s.
	Timeout time.Duration
	// PoolSize is how many connections publishes share. Default: 10.
	PoolSize int
}

const (
	defaultMaxBytes  = 16 << 20
	defaultClaimIdle = 5 * time.Second
	defaultTimeout   = 10 * time.Second
	defaultPool      = 10
	dialLimit        = time.Second
	replyLimit       = 3 * time.Second
	openLimit        = 2 * time.Second
	closeGrace       = time.Second
	retryPause       = 100 * time.Millisecond
)

var errClosed = fmt.Errorf("redis: bus closed: %w", bus.ErrUnavailable)

var (
	_ bus.Bus        = (*Bus)(nil)
	_ bus.Topology   = (*Bus)(nil)
	_ bus.Backlogger = (*Bus)(nil)
)

// Bus is a bus.Bus on Redis. Make one with Open. It is safe for concurrent use.
type Bus struct {
	cfg    bus.Config
	opt    Options
	url    redis.Options
	client *redis.Client
	life   *bus.Lifetime
}

// Open makes a bus for the server at c.URL ("redis://user:password@host:port/db",
// also rediss:// and unix://). It tries once to reach it, for at most two seconds,
// and returns a working Bus either way; only a bad configuration is an error.
func Open(ctx context.Context, c bus.Config, o Options) (*Bus, error) {
	url, err := redis.ParseURL(c.URL)
	if err != nil {
		// Not wrapped: the parser quotes the URL, password and all.
		return nil, errors.New("redis: the URL must be redis://, rediss:// or unix://")
	}
	b := &Bus{cfg: c.WithDefaults(), opt: o.withDefaults(), url: *url, life: bus.NewLifetime()}
	b.client = b.connect(b.opt.PoolSize)
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	b.client.Ping(ctx)
	return b, nil
}

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.ClaimIdle <= 0 {
		o.ClaimIdle = defaultClaimIdle
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.PoolSize <= 0 {
		o.PoolSize = defaultPool
	}
	return o
}

// connect makes a client that retries nothing: a command sent twice is an entry
// stored twice.
func (b *Bus) connect(pool int) *redis.Client {
	o := b.url
	o.Dialer = b.dialer()
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = dialLimit
	o.ReadTimeout, o.WriteTimeout = replyLimit, replyLimit
	o.PoolTimeout = replyLimit
	o.PoolSize = pool
	o.ContextTimeoutEnabled = true
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&o)
}

// Close implements bus.Bus. Publishes under way get a second to finish; then
// their connections are closed. Subscriptions end by themselves.
func (b *Bus) Close() error {
	b.life.End()
	cut := time.AfterFunc(closeGrace, func() { b.client.Close() })
	b.life.Wait()
	cut.Stop()
	if err := b.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return err
	}
	return nil
}
