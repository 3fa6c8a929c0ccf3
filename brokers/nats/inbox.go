package nats

import (
	"context"
	"fmt"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"outboxplayground/core/bus"
)

// What a consumer answers to a message (NATS' architecture decision ADR-13).
const (
	ack      = "+ACK"
	inWork   = "+WPI"
	nakAfter = `-NAK {"delay": %d}` // nanoseconds
)

// retryPause is how long a failed message stays away.
const retryPause = 100 * time.Millisecond

// inbox is what one subscription holds unacknowledged. It speaks the protocol of
// pull consumers itself, because of two things that the client's own loops do not
// do: everything that has arrived can be renewed, and at the end nothing that is
// still on its way is dropped, to wait for AckWait.
type inbox struct {
	bus    *Bus
	topic  string
	handle bus.Handler
	next   string // the subject for asking
	sub    *natsgo.Subscription
	wire   chan *natsgo.Msg // as they come
	room   chan struct{}    // a token for each message that is held or asked for
	queue  chan *natsgo.Msg // held, not yet handled

	mu   sync.Mutex
	held map[*natsgo.Msg]bool
}

func (b *Bus) newInbox(topic, consumer string) (*inbox, error) {
	n := b.cfg.MaxUnacked
	in := &inbox{bus: b, topic: topic, held: map[*natsgo.Msg]bool{},
		next: jetstream.DefaultAPIPrefix + "CONSUMER.MSG.NEXT." + b.stream(topic) + "." + consumer,
		wire: make(chan *natsgo.Msg, 2*n+16), room: make(chan struct{}, n), queue: make(chan *natsgo.Msg, 2*n)}
	var err error
	in.sub, err = b.nc.ChanSubscribe(b.nc.NewInbox(), in.wire)
	return in, err
}

// run pulls and renews beside the handler.
func (in *inbox) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var side sync.WaitGroup
	side.Go(func() { err = in.pull(ctx); in.leave(); close(in.queue) })
	side.Go(func() { in.renew(ctx) })
	for m := range in.queue {
		in.one(ctx, m)
	}
	cancel()
	side.Wait()
	in.flush() // the acknowledgements, before the process may end
	return err
}

func (in *inbox) flush() {
	if in.bus.line.err() == nil {
		_ = in.bus.nc.FlushTimeout(goodbye)
	}
}

// leave gives up the subscription and takes what the server had sent before it
// knew. The client delivers until the drain is over, and the flush ends later.
func (in *inbox) leave() {
	_ = in.sub.Drain()
	in.flush()
	for {
		select {
		case m := <-in.wire:
			if m != nil && status(m) == "" {
				in.take(m)
			}
		default:
			return
		}
	}
}

// take holds a message until it is handled.
func (in *inbox) take(m *natsgo.Msg) {
	in.mu.Lock()
	in.held[m] = true
	in.mu.Unlock()
	in.queue <- m
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
			in.answer(m, inWork)
		}
		in.mu.Unlock()
	}
}

// one handles a message. What is left at the end goes back with a delay too: at
// once, an old server could give it to this very inbox, which nobody reads any more.
func (in *inbox) one(ctx context.Context, m *natsgo.Msg) {
	err := ctx.Err()
	if err == nil {
		err = in.handle(ctx, decode(in.topic, m))
	}
	in.mu.Lock()
	delete(in.held, m)
	in.mu.Unlock()
	if err == nil {
		in.answer(m, ack)
	} else {
		in.answer(m, fmt.Sprintf(nakAfter, retryPause.Nanoseconds()))
	}
	select {
	case <-in.room:
	default: // one that came while leaving
	}
}

// answer does not wait for the server: an answer that gets lost has the message
// delivered again, as a wait that fails would.
func (in *inbox) answer(m *natsgo.Msg, what string) {
	_ = in.bus.nc.Publish(m.Reply, []byte(what))
}
