package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

// Publish sends the messages pipelined on one channel; see bus.Bus. A nack is
// ambiguous. A message whose sending had not begun by the deadline is
// ErrUnavailable, and so are those behind one whose sending failed: they are not
// tried, which keeps the order.
func (b *Bus) Publish(ctx context.Context, msgs ...bus.Message) error {
	p := newPublication(msgs, b.check)
	if !slices.Contains(p.settled, false) {
		return p.result(nil)
	}
	c, err := b.link.current()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: rabbitmq: %w", bus.ErrUnavailable, ctx.Err())
	}
	if err == nil && !b.life.Go(func() { p.run(b.pool, c) }) {
		err = errClosed
	}
	if err != nil {
		return p.result(err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	return p.result(ctx.Err())
}

// publication is one Publish on its way. Sending, collecting answers and waiting
// for the deadline are three goroutines, because a send can block for as long as
// the connection stalls.
type publication struct {
	msgs []bus.Message
	stop chan struct{} // closed when nobody waits any more
	done chan struct{} // closed when every message is settled

	mu      sync.Mutex
	halted  bool
	started []bool
	settled []bool
	fate    []error
}

func newPublication(msgs []bus.Message, check func(bus.Message) error) *publication {
	n := len(msgs)
	p := &publication{msgs: msgs, stop: make(chan struct{}), done: make(chan struct{}),
		started: make([]bool, n), settled: make([]bool, n), fate: make([]error, n)}
	for i, m := range msgs {
		p.fate[i] = check(m)
		p.settled[i] = p.fate[i] != nil
	}
	return p
}

// begin says whether message i may be sent, and from then on counts it as sent.
func (p *publication) begin(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.halted || p.settled[i] {
		return false
	}
	p.started[i] = true
	return true
}

func (p *publication) settle(i int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.settled[i] {
		p.settled[i], p.fate[i] = true, err
	}
}

// result ends the publication and returns its outcome. What is not settled is
// ambiguous if its sending had begun, else it was never sent, for the reason why.
func (p *publication) result(why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.halted {
		p.halted = true
		close(p.stop)
	}
	for i := range p.msgs {
		switch {
		case p.settled[i]:
		case p.started[i]:
			p.fate[i] = fmt.Errorf("rabbitmq: no confirm: %w", orNotSent(why))
		case errors.Is(why, bus.ErrUnavailable), errors.Is(why, bus.ErrRejected):
			p.fate[i] = why
		default:
			p.fate[i] = fmt.Errorf("%w: rabbitmq: not sent: %w", bus.ErrUnavailable, orNotSent(why))
		}
		p.settled[i] = true
	}
	return bus.Join(p.fate)
}

func orNotSent(why error) error {
	if why == nil {
		return errors.New("an earlier message failed")
	}
	return why
}

// run publishes on a borrowed channel.
func (p *publication) run(pool *pool, c *conn) {
	ch, err := pool.get(c, p.stop)
	if err != nil {
		for i := range p.msgs {
			p.settle(i, err)
		}
		close(p.done)
		return
	}
	tickets := make(chan ticket, len(p.msgs))
	var sender sync.WaitGroup
	sender.Go(func() { p.send(ch, pool.exchange, tickets) })
	col := collector{p: p, ch: ch, returned: map[string]amqp.Return{}}
	clean := col.collect(tickets)
	close(p.done)
	if !clean {
		pool.discard(ch)
		sender.Wait()
		return
	}
	sender.Wait()
	pool.put(ch)
}

// ticket is one message that was handed to the client.
type ticket struct {
	i       int
	confirm *amqp.DeferredConfirmation
	err     error
}

// send stops at the first failure, so that no message overtakes one before it.
func (p *publication) send(ch *channel, exchange string, tickets chan<- ticket) {
	defer close(tickets)
	for i, m := range p.msgs {
		if !p.begin(i) {
			continue
		}
		confirm, err := ch.PublishWithDeferredConfirm(exchange, m.Topic, true, false, encode(m, strconv.Itoa(i)))
		tickets <- ticket{i, confirm, err}
		if err != nil {
			return
		}
	}
}
