package rabbitmq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

// collector takes the broker's answers for one publication.
type collector struct {
	p         *publication
	ch        *channel
	returned  map[string]amqp.Return // by correlation id
	unsettled []int                  // sent, and the channel closed without a confirm
}

// collect settles every message and says whether the channel can be used again.
func (c *collector) collect(tickets <-chan ticket) (clean bool) {
	for {
		select {
		case r := <-c.ch.returns:
			c.keep(r)
		case <-c.p.stop:
			return false
		case t, ok := <-tickets:
			if !ok {
				c.blame()
				c.p.result(nil)
				return !c.ch.IsClosed()
			}
			if t.err != nil {
				c.p.settle(t.i, sendError(t.err))
			} else if !c.confirm(t) {
				return false
			}
		}
	}
}

// confirm waits for the answer to one message; false when nobody waits any more.
func (c *collector) confirm(t ticket) bool {
	for {
		select {
		case r := <-c.ch.returns:
			c.keep(r)
		case <-c.p.stop:
			return false
		case <-t.confirm.Done():
			c.judge(t)
			return true
		}
	}
}

// keep stores a return. The channel of returns yields empty ones once it is closed.
func (c *collector) keep(r amqp.Return) {
	if r.ReplyCode != 0 {
		c.returned[r.CorrelationId] = r
	}
}

// judge settles a message whose confirm is there. Its return, if there is one, came
// before the confirm, so it is in the buffer at the latest.
func (c *collector) judge(t ticket) {
	for waiting := true; waiting; {
		select {
		case r, ok := <-c.ch.returns:
			c.keep(r)
			waiting = ok
		default:
			waiting = false
		}
	}
	r, back := c.returned[strconv.Itoa(t.i)]
	switch {
	case back:
		c.p.settle(t.i, fmt.Errorf("%w: rabbitmq: no queue is bound to %q: %s", bus.ErrRejected, r.RoutingKey, r.ReplyText))
	case t.confirm.Acked():
		c.p.settle(t.i, nil)
	case c.ch.IsClosed():
		c.unsettled = append(c.unsettled, t.i)
	default:
		c.p.settle(t.i, errors.New("rabbitmq: the broker answered nack"))
	}
}

// sendError classes a failure to send. ErrClosed means that the last frame of the
// message was not written, and half a message is none.
func sendError(err error) error {
	if errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("%w: rabbitmq: %w", bus.ErrUnavailable, err)
	}
	return fmt.Errorf("rabbitmq: send: %w", err)
}

// blame settles the messages that were under way when the channel closed. The
// broker handles them one after another and closes the channel at the first that
// it refuses; those before it may have been stored, those after it were not looked at.
func (c *collector) blame() {
	if len(c.unsettled) == 0 {
		return
	}
	e := <-c.ch.closed // nil when the connection was closed politely
	if e == nil {
		e = amqp.ErrClosed
	}
	culprit := c.culprit(e)
	for at, i := range c.unsettled {
		switch {
		case at == culprit:
			c.p.settle(i, fmt.Errorf("%w: rabbitmq: %w", bus.ErrRejected, e))
		case culprit >= 0 && at > culprit:
			c.p.settle(i, fmt.Errorf("%w: rabbitmq: an earlier message closed the channel: %w", bus.ErrUnavailable, e))
		default:
			c.p.settle(i, fmt.Errorf("rabbitmq: closed before the confirm: %w", e))
		}
	}
}

// culprit finds the message that a channel was closed for: the only one, or the
// first of the size that the broker complains about. -1 when nobody can know.
func (c *collector) culprit(e *amqp.Error) int {
	switch e.Code {
	case amqp.NotFound, amqp.AccessRefused, amqp.PreconditionFailed:
	default:
		return -1
	}
	if len(c.unsettled) == 1 {
		return 0
	}
	size := sizeIn(e.Reason)
	for at, i := range c.unsettled {
		if len(c.p.msgs[i].Payload) == size {
			return at
		}
	}
	return -1
}

// sizeIn reads the size out of "message size N is larger than ...", or returns -1.
func sizeIn(reason string) int {
	_, after, found := strings.Cut(reason, "message size ")
	if !found {
		return -1
	}
	digits, _, _ := strings.Cut(after, " ")
	size, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return size
}
