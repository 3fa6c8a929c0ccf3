package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"outboxplayground/core/bus"
)

// window bounds the unanswered messages of one Publish, well below the 10,000 that
// a stream takes in before it answers "too many requests".
const window = 1024

// Publish sends the messages pipelined; see bus.Bus. A message whose sending had
// not begun by the deadline is ErrUnavailable, and so are those behind one whose
// sending failed: they are not tried, which keeps the order.
func (b *Bus) Publish(ctx context.Context, msgs ...bus.Message) error {
	f := newFlight(len(msgs))
	for i, m := range msgs {
		var err error
		if f.msgs[i], err = b.encode(m); err != nil {
			f.settle(i, err)
		}
	}
	if f.open == 0 {
		return bus.Join(f.fate)
	}
	err := b.ready(ctx)
	if err == nil && !b.life.Go(func() { f.send(b.js) }) {
		err = errClosed
	}
	if err != nil {
		f.end(err)
		return bus.Join(f.fate)
	}
	f.end(b.collect(ctx, f))
	b.explainSilence(ctx, msgs, f.fate)
	return bus.Join(f.fate)
}

// flight is one Publish on its way. Only the goroutine of Publish settles; the
// sender, which can block for as long as the socket does, hands over what it sent.
type flight struct {
	msgs    []*natsgo.Msg
	fate    []error
	settled []bool
	open    int // how many are not settled
	sent    chan sent
	room    chan struct{}

	mu      sync.Mutex
	halted  bool
	halt    chan struct{}
	started int // messages before this one may have been sent
}

type sent struct {
	i   int
	ack jetstream.PubAckFuture
	err error
}

func newFlight(n int) *flight {
	return &flight{msgs: make([]*natsgo.Msg, n), fate: make([]error, n), settled: make([]bool, n), open: n,
		sent: make(chan sent, n), room: make(chan struct{}, window), halt: make(chan struct{})}
}

func (f *flight) settle(i int, err error) {
	f.fate[i], f.settled[i] = err, true
	f.open--
}

// begin says whether message i may be sent, and from then on counts it as sent.
func (f *flight) begin(i int) bool {
	select {
	case f.room <- struct{}{}:
	case <-f.halt:
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.halted {
		f.started = i + 1
	}
	return !f.halted
}

// send stops at the first failure, so that no message overtakes one before it. A
// message that is too large fails alone.
func (f *flight) send(js jetstream.JetStream) {
	defer close(f.sent)
	for i, m := range f.msgs {
		if m == nil {
			continue
		}
		if !f.begin(i) {
			return
		}
		ack, err := js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
		f.sent <- sent{i, ack, err}
		if err != nil && !errors.Is(err, natsgo.ErrMaxPayload) {
			return
		}
	}
}

// collect settles what the server answers, until ctx, the bus or the messages end.
// It returns why the rest was not answered.
func (b *Bus) collect(ctx context.Context, f *flight) error {
	for {
		select {
		case s, ok := <-f.sent:
			if !ok {
				return errors.New("an earlier message failed")
			}
			if err := b.await(ctx, f, s); err != nil {
				return err
			}
			<-f.room
		case <-ctx.Done():
			return ctx.Err()
		case <-b.life.Done():
			return errClosed
		}
	}
}

func (b *Bus) await(ctx context.Context, f *flight, s sent) error {
	if s.err != nil {
		f.settle(s.i, sendError(s.err))
		return nil
	}
	select {
	case <-s.ack.Ok():
		f.settle(s.i, nil)
	case err := <-s.ack.Err():
		f.settle(s.i, ackError(err))
	case <-ctx.Done():
		return ctx.Err()
	case <-b.life.Done():
		return errors.New("bus closed")
	}
	return nil
}

// end settles the rest: what was begun is ambiguous, the others were never sent.
func (f *flight) end(why error) {
	f.mu.Lock()
	if !f.halted {
		f.halted = true
		close(f.halt)
	}
	started := f.started
	f.mu.Unlock()
	for i := range f.fate {
		switch {
		case f.settled[i]:
		case i < started:
			f.settle(i, fmt.Errorf("nats: no acknowledgement: %w", notTyped(why)))
		case errors.Is(why, bus.ErrUnavailable):
			f.settle(i, why)
		default:
			f.settle(i, fmt.Errorf("%w: nats: not sent: %w", bus.ErrUnavailable, why))
		}
	}
}

// notTyped keeps the text of a reason and drops its class.
func notTyped(why error) error {
	if errors.Is(why, bus.ErrUnavailable) {
		return errors.New(why.Error())
	}
	return why
}
