// Package rabbitmq carries messages over RabbitMQ 3.10 and later (AMQP 0-9-1).
//
// What the words of package bus mean here:
//
//   - accepted: the broker confirmed the message and did not return it. The
//     exchange and queues are durable and the messages persistent, so on a quorum
//     queue a confirm means "written to the log of a majority". A confirm alone is
//     not enough: a message that no queue wants is confirmed too. Every message is
//     therefore published as mandatory, and one that comes back is ErrRejected.
//     It comes back before its confirm.
//   - rejected: no group is bound to the topic, the exchange does not exist, or
//     the message cannot be carried (larger than Options.MaxBytes, a header name
//     that AMQP has no room for or that RabbitMQ gives a meaning of its own).
//   - ambiguous: the connection broke or the deadline came before the confirm, or
//     the broker said nack. A nack means that a queue could not take the message;
//     with several groups another queue may have taken it.
//   - unavailable: not connected, or the broker has blocked its publishers (memory
//     or disk alarm), so nothing was sent.
//   - redelivered: when a handler fails, after a tenth of a second; when a
//     consumer's connection ends, at once. Messages are never dropped for having
//     been delivered too often.
//   - ordered: as published by one Publish or by Publishes that follow one another,
//     within one group with one member, as long as no handler fails.
//
// One direct exchange serves all topics of a prefix; each group of a topic has a
// queue of its own, bound with the topic as routing key.
package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

// DefaultMaxBytes is max_message_size of RabbitMQ 4; RabbitMQ 3 takes 128 MiB. A
// broker answers a larger message by closing the channel, which would make the
// fate of its neighbours unknown, so the driver refuses it first.
const DefaultMaxBytes = 16 << 20

// Options are the choices that only RabbitMQ has. The zero value is usable.
type Options struct {
	// Classic makes queues classic instead of quorum: faster and not replicated.
	Classic bool
	// MaxBytes is the largest payload that is sent; a larger one is ErrRejected.
	// Set it to the broker's max_message_size where that is smaller.
	// Default: DefaultMaxBytes.
	MaxBytes int
	// Settle is how long Prepare waits after it has made a queue, because RabbitMQ
	// confirms a declaration before its registers are on disk. The names of quorum
	// queues stand in a DETS table that is saved after the first half second without a
	// change, and written within 3 s in any case (the module ra_directory of its Raft
	// library, and the default delayed_write of Erlang's dets). Seen on 3.10.8: killed
	// up to 0.9 s after the declaration, the broker came back with a quorum queue that
	// answers nobody, and what it had confirmed was gone; after 1.2 s all was there,
	// and on a busy machine not even after 1.5 s.
	// With classic queues a kill right after the declaration did harm in one of some
	// twenty tries: a group got nothing of what was confirmed after the restart, as if
	// its binding had been forgotten. Until then "accepted" would not be quite true.
	// Negative: do not wait, for a broker that is not going to die in those seconds.
	// Default: DefaultSettle.
	Settle time.Duration
}

// DefaultSettle is the 3 s within which RabbitMQ writes the name of a new queue, and
// a margin.
const DefaultSettle = 3500 * time.Millisecond

// Bus is a bus.Bus on RabbitMQ. It publishes on one connection that it keeps up by
// itself; each subscription has a connection of its own, because RabbitMQ stops
// reading from a connection that publishes while memory is short, and would leave
// the acknowledgements on it unread. Safe for concurrent use.
type Bus struct {
	cfg  bus.Config
	opts Options
	dial dialer
	link *link
	pool *pool
	desk desk

	heldMu sync.Mutex
	held   map[string]*counter

	life *bus.Lifetime
}

var (
	_ bus.Bus        = (*Bus)(nil)
	_ bus.Topology   = (*Bus)(nil)
	_ bus.Backlogger = (*Bus)(nil)
)

var errClosed = fmt.Errorf("%w: rabbitmq: bus closed", bus.ErrUnavailable)

// firstAttempt bounds how long Open waits for the first connection.
const firstAttempt = 2 * time.Second

// Open returns a bus for the broker at c.URL. It waits for one attempt to connect,
// for at most 2 s or until ctx ends, and returns a working bus whatever came of
// it: the connection is made, and made again, in the background. The error is
// only ever about the configuration.
func Open(ctx context.Context, c bus.Config, o Options) (*Bus, error) {
	c = c.WithDefaults()
	if _, err := amqp.ParseURI(c.URL); err != nil {
		return nil, errors.New("rabbitmq: the URL is not of the form amqp://user:password@host:port/vhost")
	}
	if err := checkName(c.Prefix); err != nil {
		return nil, fmt.Errorf("rabbitmq: prefix: %w", err)
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	b := &Bus{cfg: c, opts: o, held: map[string]*counter{}, life: bus.NewLifetime()}
	b.dial = dialer{url: c.URL, dial: c.Dial}
	b.link = newLink(b.life, b.dial)
	b.pool = newPool(c.Name("events"))
	b.desk = newDesk(b.dial)
	b.life.Go(b.link.run)
	ctx, cancel := context.WithTimeout(ctx, firstAttempt)
	defer cancel()
	select {
	case <-b.link.tried:
	case <-ctx.Done():
	}
	return b, nil
}

// Close ends the connections and waits until nothing of the bus runs any more,
// except calls to handlers: Subscribe returns after its handler has.
func (b *Bus) Close() error {
	b.life.End()
	b.life.Wait()
	b.desk.close()
	return nil
}
