// Package bus is the vocabulary that every chapter and every broker driver
// shares: a message, the three-method bus that carries it, and the three kinds
// of failure a publish can have. It imports nothing of this project, so it can
// be copied into another service as it is.
package bus

import (
	"context"
	"net"
	"time"
)

// Message is one event on its way. It is a plain value: copy it freely, but do
// not change Payload or Headers after handing it to a Bus.
type Message struct {
	// ID is the event's UUID in text form. It stays the same however often the
	// event is published, which is what lets a consumer recognise a repeat.
	ID string
	// Topic is the logical stream, without the driver's prefix ("plain", "safe").
	Topic string
	// Key orders: messages of one key keep their order where the bus can do so.
	// Empty means no ordering is asked for.
	Key string
	// Payload travels byte for byte. Drivers never re-encode it.
	Payload []byte
	// Headers travel beside the payload. Names starting with "outbox-" belong to
	// the drivers.
	Headers map[string]string
}

// Handler is what a subscriber does with one message. Returning nil
// acknowledges the message; returning an error leaves it with the broker, which
// delivers it again. The context ends when the subscription does.
type Handler func(ctx context.Context, m Message) error

// Bus carries messages. Implementations are safe for concurrent use.
type Bus interface {
	// Publish hands the messages to the broker, pipelined, and waits for its
	// answers. Nil means that the broker took responsibility for every message:
	// a publisher confirm of a routed message, acks=all, a PubAck, an XADD reply.
	//
	// It returns by the context's deadline. When the broker is not connected it
	// answers ErrUnavailable at once: it never waits for a reconnection, and
	// nothing is kept to be sent later. When some messages failed and others did
	// not, the error is a *PublishError; use Outcome to ask about one message.
	Publish(ctx context.Context, msgs ...Message) error

	// Subscribe delivers the messages of a topic to h, one at a time, as a member
	// of group: every group gets every message, members of a group share them. A
	// group that is new starts with the oldest message that the broker still has.
	//
	// It blocks until ctx ends, reconnecting by itself meanwhile, and returns nil
	// then. It returns early only with an error that no reconnection can mend.
	Subscribe(ctx context.Context, topic, group string, h Handler) error

	// Close ends the connections. Publishes under way are answered (not
	// necessarily with success), later ones with ErrUnavailable. Messages that
	// were not acknowledged go back to the broker. Close may be called twice.
	Close() error
}

// Topology is implemented by a bus whose topics and groups have to exist before
// the first publish. All five drivers here implement it.
type Topology interface {
	// Prepare makes the topic and its groups, waiting for the broker until ctx
	// ends; what exists already is left as it is. It returns only when a publish
	// and a subscription can succeed (on Kafka: when every partition has a leader).
	Prepare(ctx context.Context, topic string, groups ...string) error
	// Remove deletes the topic and its groups with all that they still hold.
	// Removing what does not exist is not an error.
	Remove(ctx context.Context, topic string, groups ...string) error
}

// Backlogger is implemented by a bus that can say how much of a topic a group
// has not yet acknowledged: messages waiting and messages in a consumer's hands
// together. Zero means that the group has handled all there was.
type Backlogger interface {
	Backlog(ctx context.Context, topic, group string) (int64, error)
}

// DialFunc opens a connection to a broker. A driver uses it for every connection
// it makes, which is how a fault proxy gets in between without the driver knowing.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Config is what every driver needs to know. The zero value of each field is
// usable; URL must be set for a networked bus.
type Config struct {
	// URL says where the broker is, in the client's own form: an amqp://, nats://
	// or redis:// URL, or comma-separated host:port pairs for Kafka.
	URL string
	// Prefix is put before every name on the broker ("ch03" makes "ch03.safe"),
	// so that chapters and runs share a broker without meeting. Default: none.
	Prefix string
	// Dial opens connections. Default: a net.Dialer with a timeout of one second.
	Dial DialFunc
	// MaxUnacked bounds how many unacknowledged messages one subscription holds.
	// Default: 16.
	MaxUnacked int
}

// DefaultMaxUnacked is small so that a slow handler does not hold messages for
// longer than the broker's redelivery time.
const DefaultMaxUnacked = 16

// dialTimeout keeps an attempt to connect into a black hole short.
const dialTimeout = time.Second

// WithDefaults returns a copy of c in which every unset field has its default.
func (c Config) WithDefaults() Config {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if c.MaxUnacked <= 0 {
		c.MaxUnacked = DefaultMaxUnacked
	}
	return c
}

// Name returns the broker's name for a topic or group: the prefix, a dot, and
// the parts joined by dots.
func (c Config) Name(parts ...string) string {
	name := c.Prefix
	for _, p := range parts {
		if name != "" {
			name += "."
		}
		name += p
	}
	return name
}
