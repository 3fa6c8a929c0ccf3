package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"outboxplayground/core/bus"
)

// layoutTTL bounds how late a publisher learns of added partitions. A leader that
// moved is learnt at the first failure.
const layoutTTL = 5 * time.Second

// layout says who leads the partitions of a topic.
type layout struct {
	leaders map[int]string // partition: host:port, "" while it has none
	ids     []int
	at      time.Time
}

// layouts caches what the brokers said about topics.
type layouts struct {
	mu    sync.Mutex
	known map[string]*layout
}

func (l *layouts) get(topic string) *layout {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.known[topic]; k != nil && time.Since(k.at) < layoutTTL {
		return k
	}
	return nil
}

// set replaces what is known of a topic; nil forgets it.
func (l *layouts) set(topic string, k *layout) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = make(map[string]*layout)
	}
	l.known[topic] = k
}

// lookup returns the layout of a topic (a name on the broker), from the cache if
// it is there. Nothing has been published when it fails: its errors are
// ErrRejected when every broker that answers says that there is no such topic,
// and ErrUnavailable otherwise.
func (b *Bus) lookup(ctx context.Context, topic string) (*layout, error) {
	if k := b.layouts.get(topic); k != nil {
		return k, nil
	}
	k, err := b.fresh(ctx, topic)
	if err != nil {
		return nil, err
	}
	b.layouts.set(topic, k)
	return k, nil
}

func (b *Bus) fresh(ctx context.Context, topic string) (*layout, error) {
	var found *layout
	err := b.ask(ctx, func(a net.Addr) error {
		res, err := b.client.Metadata(ctx, &kafka.MetadataRequest{Addr: a, Topics: []string{topic}})
		if err != nil {
			return err
		}
		if len(res.Topics) != 1 {
			return kafka.UnknownTopicOrPartition
		}
		if err := res.Topics[0].Error; err != nil {
			return err
		}
		found = newLayout(res.Topics[0])
		return nil
	})
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, kafka.UnknownTopicOrPartition), errors.Is(err, kafka.InvalidTopic):
		return nil, fmt.Errorf("kafka: topic %q: %w: %w", topic, bus.ErrRejected, err)
	case errors.Is(err, bus.ErrUnavailable):
		return nil, fmt.Errorf("kafka: topic %q: %w", topic, err)
	default:
		return nil, fmt.Errorf("kafka: topic %q: %w: %w", topic, bus.ErrUnavailable, err)
	}
}

func newLayout(t kafka.Topic) *layout {
	k := &layout{leaders: make(map[int]string), at: time.Now()}
	for _, p := range t.Partitions {
		addr := ""
		if p.Leader.Host != "" {
			addr = net.JoinHostPort(p.Leader.Host, strconv.Itoa(p.Leader.Port))
		}
		k.leaders[p.ID] = addr
		k.ids = append(k.ids, p.ID)
	}
	return k
}

// led says whether every partition has a leader.
func (k *layout) led() bool {
	for _, addr := range k.leaders {
		if addr == "" {
			return false
		}
	}
	return len(k.leaders) > 0
}

// ask puts a question to the named brokers in turn until one answers it without
// an error. An answer, even a refusal, counts for more than a broker that cannot
// be reached: its error is the one returned.
func (b *Bus) ask(ctx context.Context, question func(net.Addr) error) error {
	var answer error
	for _, addr := range b.brokers {
		err := question(kafka.TCP(addr))
		if err == nil {
			return nil
		}
		if answer == nil || errors.Is(answer, bus.ErrUnavailable) {
			answer = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return answer
}
