package rabbitmq

import (
	"context"
	"fmt"

	"outboxplayground/core/bus"
)

// desk is where calls about queues are made, one after another, on a connection
// that it keeps while it works. A call that outlasts its context costs the
// connection; the next one makes another. Safe for concurrent use.
type desk struct {
	dial dialer
	busy chan struct{} // holds a token while somebody uses conn
	conn *conn
	shut bool
}

func newDesk(d dialer) desk {
	return desk{dial: d, busy: make(chan struct{}, 1)}
}

// with runs f with a connection. The error is ErrUnavailable if there is none.
func (d *desk) with(ctx context.Context, f func(*conn) error) error {
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	case <-ctx.Done():
		return fmt.Errorf("%w: rabbitmq: %w", bus.ErrUnavailable, ctx.Err())
	}
	if d.shut {
		return errClosed
	}
	if d.conn == nil || d.conn.IsClosed() {
		c, err := d.dial.open(ctx)
		if err != nil {
			return fmt.Errorf("%w: rabbitmq: %w", bus.ErrUnavailable, err)
		}
		d.conn = c
	}
	release := d.conn.guard(ctx)
	err := f(d.conn)
	if !release() {
		d.conn.bye()
		if err != nil {
			err = fmt.Errorf("no answer in time: %w: %w", ctx.Err(), err)
		}
	}
	return err
}

// close ends the connection once no call uses it any more.
func (d *desk) close() {
	d.busy <- struct{}{}
	defer func() { <-d.busy }()
	d.shut = true
	if d.conn != nil && !d.conn.IsClosed() {
		d.conn.bye()
	}
	d.conn = nil
}
