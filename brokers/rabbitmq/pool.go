package rabbitmq

import (
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

// maxChannels bounds how many Publishes are on the wire at once; more of them wait.
const maxChannels = 32

// channel is an AMQP channel in confirm mode. Only one Publish uses it at a time,
// because the broker's answer to a bad publish is to close the channel, and all
// that is under way on it is then in doubt.
type channel struct {
	*amqp.Channel
	conn    *conn
	returns chan amqp.Return
	closed  chan *amqp.Error
}

// pool lends channels. Safe for concurrent use.
type pool struct {
	exchange string
	slots    chan struct{}
	mu       sync.Mutex
	idle     []*channel
}

func newPool(exchange string) *pool {
	return &pool{exchange: exchange, slots: make(chan struct{}, maxChannels)}
}

// get lends a channel of the connection, or opens one. It must be given back with
// put or discard. An error means that nothing was published.
func (p *pool) get(c *conn, stop <-chan struct{}) (*channel, error) {
	select {
	case p.slots <- struct{}{}:
	case <-stop:
		return nil, fmt.Errorf("%w: rabbitmq: no free channel in time", bus.ErrUnavailable)
	}
	if ch := p.reuse(c); ch != nil {
		return ch, nil
	}
	ch, err := p.open(c)
	if err != nil {
		<-p.slots
	}
	return ch, err
}

func (p *pool) reuse(c *conn) *channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		ch := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if ch.conn == c && !ch.IsClosed() {
			return ch
		}
	}
	return nil
}

// open makes a channel and asks for the exchange on it, so that a missing one is
// known for certain before anything is published.
func (p *pool) open(c *conn) (*channel, error) {
	raw, err := c.Channel()
	if err == nil {
		err = raw.Confirm(false)
	}
	if err == nil {
		err = raw.ExchangeDeclarePassive(p.exchange, amqp.ExchangeDirect, true, false, false, false, nil)
	}
	if err != nil {
		if raw != nil {
			_ = raw.Close()
		}
		return nil, fmt.Errorf("%w: rabbitmq: %w", classOf(err), err)
	}
	return &channel{Channel: raw, conn: c,
		returns: raw.NotifyReturn(make(chan amqp.Return, 256)),
		closed:  raw.NotifyClose(make(chan *amqp.Error, 1))}, nil
}

// classOf tells an answer about the destination from a failure to get one. It is
// for calls that publish nothing.
func classOf(err error) error {
	var e *amqp.Error
	if errors.As(err, &e) && (e.Code == amqp.NotFound || e.Code == amqp.AccessRefused) {
		return bus.ErrRejected
	}
	return bus.ErrUnavailable
}

// put takes back a channel on which nothing is under way.
func (p *pool) put(ch *channel) {
	p.mu.Lock()
	p.idle = append(p.idle, ch)
	p.mu.Unlock()
	<-p.slots
}

// discard gets rid of a channel on which answers may still come. The client's
// reader would wait for somebody to take the returns, so they are read to the end.
func (p *pool) discard(ch *channel) {
	var drain sync.WaitGroup
	drain.Go(func() {
		for range ch.returns {
		}
	})
	_ = ch.Close() // returns when the connection ends, at the latest
	drain.Wait()
	<-p.slots
}
