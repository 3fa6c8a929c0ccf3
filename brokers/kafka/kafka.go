// Package kafka carries messages over Apache Kafka.
//
// Accepted means acks=all: the leader and every in-sync replica appended the
// record (one copy with replication factor 1). Whether an appended record
// survives a power failure depends on the broker's flush settings and replicas,
// not on this driver.
//
// A message is one record: the key is Message.Key (none when empty), the value
// is the payload, the event's ID travels in the header "outbox-id". Records of
// one key land in one partition, chosen with the Java client's murmur2 so that
// producers in other languages agree. A message without a key is placed by its
// ID, so that a second copy of an event meets the same consumer as the first.
// Order holds within a partition, which is to say per key.
//
// Publishing is one Produce request per partition and call, written to the
// partition's leader by a small transport of our own (wire.go): kafka-go's Writer
// batches in the background, retries by itself and outlives its context, and its
// Transport caches metadata and hides whether a request was ever sent, which is
// the very thing that this driver must know. A connection that the broker has
// closed meanwhile is noticed before a request is written to it.
//
// Consuming is a consumer group. Partitions are handed over only after the
// handler in progress has returned and its offset is committed, and a commit
// carries its generation, so that a late member cannot move the group's offset.
// A killed member's partitions move on after the session timeout (6 s).
//
// Topics are created explicitly (Prepare), never by a publish.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"outboxplayground/core/bus"
)

// Options are what only Kafka knows. The zero value of each field is usable.
type Options struct {
	// Partitions is how many partitions Prepare gives a new topic. Default: 1,
	// which orders the whole topic.
	Partitions int
	// ReplicationFactor of a new topic; -1 asks for the broker's default.
	// Default: 1.
	ReplicationFactor int
	// MaxBytes bounds a request's record batch, key, headers and overhead
	// included; a message that cannot fit alone is ErrRejected. Keep it at or
	// below the topic's max.message.bytes (1,048,588 unless configured).
	// Default: 1 MiB.
	MaxBytes int
	// Timeout bounds a Publish whose context has no earlier deadline. Default: 10 s.
	Timeout time.Duration
}

const (
	defaultMaxBytes = 1 << 20
	defaultTimeout  = 10 * time.Second
	// dialLimit and handshakeLimit keep a black hole from eating the deadline.
	dialLimit      = time.Second
	handshakeLimit = 2 * time.Second
	// closeGrace is how long Close lets publishes under way finish.
	closeGrace = time.Second
	retryPause = 100 * time.Millisecond
)

// errClosed is what a closed bus answers.
var errClosed = fmt.Errorf("kafka: bus closed: %w", bus.ErrUnavailable)

var (
	_ bus.Bus        = (*Bus)(nil)
	_ bus.Topology   = (*Bus)(nil)
	_ bus.Backlogger = (*Bus)(nil)
)

// Bus is a bus.Bus on Kafka. Make one with Open. It is safe for concurrent use.
type Bus struct {
	cfg     bus.Config
	opt     Options
	brokers []string
	wire    *wire
	client  *kafka.Client
	layouts layouts
	life    *bus.Lifetime
}

// Open makes a bus for the brokers in c.URL ("host:port,host:port"). It tries
// once to reach one of them, for at most two seconds, and returns a working Bus
// either way; only a bad configuration is an error.
func Open(ctx context.Context, c bus.Config, o Options) (*Bus, error) {
	brokers, err := splitBrokers(c.URL)
	if err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	w := newWire(c.Dial)
	b := &Bus{
		cfg: c, opt: o.withDefaults(), brokers: brokers, wire: w,
		life: bus.NewLifetime(),
	}
	b.client = &kafka.Client{Transport: w, Timeout: b.opt.Timeout}
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	_ = b.ask(ctx, func(a net.Addr) error {
		_, err := b.client.Metadata(ctx, &kafka.MetadataRequest{Addr: a, Topics: []string{}})
		return err
	})
	return b, nil
}

func (o Options) withDefaults() Options {
	if o.Partitions <= 0 {
		o.Partitions = 1
	}
	if o.ReplicationFactor == 0 {
		o.ReplicationFactor = 1
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return o
}

// splitBrokers turns "a:1, b:2" into its parts. kafka-go panics in a background
// goroutine when it is given the joined string.
func splitBrokers(list string) ([]string, error) {
	var brokers []string
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(s); err != nil || port == "" {
			return nil, errors.New("kafka: brokers must be host:port, separated by commas")
		}
		brokers = append(brokers, s)
	}
	if len(brokers) == 0 {
		return nil, errors.New("kafka: no broker named")
	}
	return brokers, nil
}

// Close implements bus.Bus. Publishes under way get a second to finish; then
// their connections are cut. Subscriptions end by themselves.
func (b *Bus) Close() error {
	b.life.End()
	cut := time.AfterFunc(closeGrace, b.wire.close)
	b.life.Wait()
	cut.Stop()
	b.wire.close()
	return nil
}
