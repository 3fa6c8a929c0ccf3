package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"outboxplayground/core/bus"
)

const (
	retryPause = 100 * time.Millisecond // before a failed message comes again
	fetchTime  = time.Second            // one request for messages; a lost one is missed for as long
)

// Subscribe consumes as a member of a group; see bus.Bus. It makes stream and
// consumer if they are missing, also when they vanish meanwhile; a consumer that is
// made again starts with the first message. It returns ErrUnavailable when the bus
// is closed, and an error when the server refuses the stream or consumer for good.
func (b *Bus) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	if err := checkNames(topic, group); err != nil {
		return err
	}
	inner, cancel := b.bound(ctx)
	defer cancel()
	for inner.Err() == nil {
		err := b.consume(inner, topic, group, h)
		if err != nil && forGood(err) && inner.Err() == nil {
			return fmt.Errorf("nats: subscribe to %s: %w", topic, err)
		}
		pause(inner, redialPause)
	}
	if ctx.Err() == nil {
		return errClosed
	}
	return nil
}

// consume works until ctx ends or the consumer fails.
func (b *Bus) consume(ctx context.Context, topic, group string, h bus.Handler) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	var c jetstream.Consumer
	err := b.call(ctx, func(ctx context.Context) (err error) {
		if err = b.makeStream(ctx, topic); err == nil {
			c, err = b.makeConsumer(ctx, topic, group)
		}
		return err
	})
	if err != nil {
		return err
	}
	in := &inbox{bus: b, consumer: c, topic: topic, handle: h, held: map[jetstream.Msg]bool{},
		room: make(chan struct{}, b.cfg.MaxUnacked), queue: make(chan jetstream.Msg, b.cfg.MaxUnacked)}
	return in.run(ctx)
}

// inbox is what one subscription holds unacknowledged.
type inbox struct {
	bus      *Bus
	consumer jetstream.Consumer
	topic    string
	handle   bus.Handler
	room     chan struct{} // one token for each message that is held or asked for
	queue    chan jetstream.Msg

	mu   sync.Mutex
	held map[jetstream.Msg]bool
}

// run fetches and renews beside the handler.
func (in *inbox) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var side sync.WaitGroup
	side.Go(func() { err = in.fetch(ctx); close(in.queue) })
	side.Go(func() { in.renew(ctx) })
	for m := range in.queue {
		in.one(ctx, m)
	}
	cancel()
	side.Wait()
	if in.bus.line.err() == nil {
		_ = in.bus.nc.FlushTimeout(goodbye) // the acknowledgements, before the process may end
	}
	return err
}

// fetch asks for as many messages as there is room for, again and again.
func (in *inbox) fetch(ctx context.Context) error {
	for {
		n := in.reserve(ctx)
		if n == 0 {
			return nil
		}
		got, err := in.ask(ctx, n)
		for range n - got {
			<-in.room
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// reserve waits for room and takes all there is.
func (in *inbox) reserve(ctx context.Context) (n int) {
	select {
	case in.room <- struct{}{}:
		n++
	case <-ctx.Done():
		return 0
	}
	for {
		select {
		case in.room <- struct{}{}:
			n++
		default:
			return n
		}
	}
}

// ask makes one request for n messages and queues what comes.
func (in *inbox) ask(ctx context.Context, n int) (got int, err error) {
	if err := in.bus.ready(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	batch, err := in.consumer.Fetch(n, jetstream.FetchContext(ctx))
	if err != nil {
		return 0, err
	}
	for m := range batch.Messages() {
		in.hold(m, true)
		in.queue <- m
		got++
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return got, err
	}
	return got, nil
}

func (in *inbox) hold(m jetstream.Msg, yes bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if yes {
		in.held[m] = true
	} else {
		delete(in.held, m)
	}
}

// renew tells the server, three times in each AckWait, that what is held is in
// work: the last one of a full inbox may have to wait for longer than that.
func (in *inbox) renew(ctx context.Context) {
	t := time.NewTicker(in.bus.opts.AckWait / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		in.mu.Lock()
		for m := range in.held {
			_ = m.InProgress()
		}
		in.mu.Unlock()
	}
}

// one handles a message and tells the server, without waiting for its answer: if
// that gets lost, the message is delivered again, as it would be after a wait.
//
// What is left at the end goes back with a delay too: at once, the server could
// give it to the last request of this very inbox, which nobody reads any more.
func (in *inbox) one(ctx context.Context, m jetstream.Msg) {
	err := ctx.Err()
	if err == nil {
		err = in.handle(ctx, decode(in.topic, m))
	}
	in.hold(m, false)
	if err == nil {
		_ = m.Ack()
	} else {
		_ = m.NakWithDelay(retryPause)
	}
	<-in.room
}
