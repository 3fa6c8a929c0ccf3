// Package nats carries messages over NATS JetStream (server 2.9 and later).
//
// What the words of package bus mean here:
//
//   - accepted: the server answered with a PubAck, so the message is in the stream's
//     file. An id that the stream has seen within Options.DedupeWindow is
//     acknowledged as well and not stored a second time: a repeated publish is
//     absorbed. A repeated delivery is not.
//   - rejected: no stream takes the subject, the message is larger than the server's
//     max_payload, or its topic or id cannot be carried. When nobody answers a
//     publish the driver asks for the stream: if the stream is there (it may be
//     electing a leader) the message is unavailable, not rejected.
//   - ambiguous: the connection broke, or the deadline came, before the PubAck.
//   - unavailable: not connected, or the server said that it has no room (stream
//     full, out of resources, too many requests): it did not store the message and
//     may take it later. Nothing is kept for a later connection.
//   - redelivered: a tenth of a second after a handler failed; Options.AckWait after
//     the last sign of life of a consumer that went away. A living consumer renews
//     its claim on what it holds, so a slow handler causes no redelivery.
//   - ordered: as published by one Publish or by Publishes that follow one another,
//     within one group with one member, as long as no handler fails.
//
// A topic is a stream of its own ("ch03_safe": stream names have no dots) with the
// one subject "ch03.safe"; a group is a durable pull consumer on it. Streams keep
// everything until they are removed.
package nats

import (
	"context"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"outboxplayground/core/bus"
)

// Options are the choices that only NATS has. The zero value is usable.
type Options struct {
	// DedupeWindow is how long the stream remembers message ids. The server takes no
	// less than 100 ms. It is a property of the stream, fixed by whoever makes it.
	// Default: 2 minutes.
	DedupeWindow time.Duration
	// AckWait is how long the server waits for a sign of life about a message that a
	// consumer holds before it delivers it again. Fixed by whoever makes the group.
	// Default: 5 seconds.
	AckWait time.Duration
}

const (
	defaultDedupeWindow = 2 * time.Minute
	minDedupeWindow     = 100 * time.Millisecond
	defaultAckWait      = 5 * time.Second
)

// Bus is a bus.Bus on NATS JetStream, with one connection for everything. Safe for
// concurrent use.
type Bus struct {
	cfg  bus.Config
	opts Options
	line *line
	nc   *natsgo.Conn
	js   jetstream.JetStream
	life *bus.Lifetime
}

var (
	_ bus.Bus        = (*Bus)(nil)
	_ bus.Topology   = (*Bus)(nil)
	_ bus.Backlogger = (*Bus)(nil)
)

var errClosed = fmt.Errorf("%w: nats: bus closed", bus.ErrUnavailable)

// Open returns a bus for the server, or the comma-separated servers, at c.URL. It
// waits for one attempt to connect, for at most 2 s or until ctx ends, and returns
// a working bus whatever came of it: the connection is made, and made again, in
// the background. The error is only ever about the configuration.
func Open(ctx context.Context, c bus.Config, o Options) (*Bus, error) {
	c, o = c.WithDefaults(), o.withDefaults()
	if err := checkURL(c.URL); err != nil {
		return nil, err
	}
	if c.Prefix != "" && !validName(c.Prefix) {
		return nil, fmt.Errorf("nats: the prefix %q cannot be part of a subject", c.Prefix)
	}
	if o.DedupeWindow < minDedupeWindow {
		return nil, fmt.Errorf("nats: the server takes no DedupeWindow below %v", minDedupeWindow)
	}
	b := &Bus{cfg: c, opts: o, life: bus.NewLifetime()}
	b.line = newLine(b.life, c.Dial)
	if err := b.connect(ctx, c.URL); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (o Options) withDefaults() Options {
	if o.DedupeWindow == 0 {
		o.DedupeWindow = defaultDedupeWindow
	}
	if o.AckWait <= 0 {
		o.AckWait = defaultAckWait
	}
	return o
}

// ready answers at once whether the bus is connected.
func (b *Bus) ready(ctx context.Context) error {
	switch {
	case b.life.Over():
		return errClosed
	case ctx.Err() != nil:
		return fmt.Errorf("%w: nats: %w", bus.ErrUnavailable, ctx.Err())
	}
	return b.line.err()
}

// Close ends the connection and waits until nothing of the bus runs any more,
// except calls to handlers: Subscribe returns after its handler has.
func (b *Bus) Close() error {
	b.life.End()
	b.line.hangUp(b.nc)
	b.life.Wait()
	return nil
}
