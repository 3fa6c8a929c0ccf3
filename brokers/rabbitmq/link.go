package rabbitmq

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

const (
	heartbeat   = 10 * time.Second       // three missed ones end a connection
	handshake   = 2 * time.Second        // dial, TLS and AMQP greeting together
	redialPause = 150 * time.Millisecond // between two attempts
	goodbye     = time.Second            // for the closing handshake
)

// conn is an AMQP connection with the socket under it, because closing the socket
// is the only way to interrupt a call of the client: it knows no context.
type conn struct {
	*amqp.Connection
	raw net.Conn
}

// guard closes the socket when ctx ends, until release is called.
func (c *conn) guard(ctx context.Context) (release func() bool) {
	return context.AfterFunc(ctx, func() { c.raw.Close() })
}

// within runs a call of the client, and closes the socket if it takes longer.
func (c *conn) within(d time.Duration, call func() error) error {
	t := time.AfterFunc(d, func() { c.raw.Close() })
	defer t.Stop()
	return call()
}

// bye closes the connection politely, or not politely after a second.
func (c *conn) bye() {
	_ = c.within(2*goodbye, func() error { return c.CloseDeadline(time.Now().Add(goodbye)) })
	c.raw.Close()
}

type dialer struct {
	url  string
	dial bus.DialFunc
}

// open makes a connection within the handshake time and ctx.
func (d dialer) open(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	c, release := &conn{}, func() bool { return true }
	cfg := amqp.Config{Heartbeat: heartbeat, Properties: amqp.NewConnectionProperties()}
	cfg.Dial = func(network, addr string) (net.Conn, error) {
		raw, err := d.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.raw, release = raw, context.AfterFunc(ctx, func() { raw.Close() })
		return raw, raw.SetDeadline(time.Now().Add(handshake)) // the client lifts it after the greeting
	}
	var err error
	c.Connection, err = amqp.DialConfig(d.url, cfg)
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err != nil && c.raw != nil {
		c.raw.Close()
	}
	return c, err
}

// link keeps one connection up.
type link struct {
	life  *bus.Lifetime
	dial  dialer
	tried chan struct{} // closed after the first attempt

	mu      sync.Mutex
	conn    *conn // nil while there is none
	why     error // why there is none
	blocked string
}

func newLink(life *bus.Lifetime, d dialer) *link {
	return &link{life: life, dial: d, tried: make(chan struct{}), why: fmt.Errorf("connecting")}
}

// run connects again and again until the bus ends.
func (l *link) run() {
	ctx, cancel := l.life.Bound(context.Background())
	defer cancel()
	for first := true; ctx.Err() == nil; first = false {
		c, err := l.dial.open(ctx)
		if err != nil {
			c = nil
		}
		l.set(c, err)
		if first {
			close(l.tried)
		}
		if c != nil {
			l.set(nil, l.watch(ctx, c))
		}
		l.life.Pause(ctx, redialPause)
	}
}

// watch returns when the connection has ended, and says why.
func (l *link) watch(ctx context.Context, c *conn) error {
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	blocks := c.NotifyBlocked(make(chan amqp.Blocking, 16))
	for {
		select {
		case <-ctx.Done():
			c.bye()
			return errClosed
		case b, ok := <-blocks:
			if !ok {
				blocks = nil
			}
			l.block(b)
		case e := <-closed:
			c.raw.Close()
			if e != nil {
				return e
			}
			return amqp.ErrClosed
		}
	}
}

func (l *link) set(c *conn, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.why, l.blocked = c, why, ""
}

func (l *link) block(b amqp.Blocking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked = ""
	if b.Active {
		l.blocked = "the broker blocks publishers: " + b.Reason
	}
}

// current returns the connection, or at once why nothing can be published.
func (l *link) current() (*conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.conn == nil:
		return nil, fmt.Errorf("%w: rabbitmq: %w", bus.ErrUnavailable, l.why)
	case l.conn.IsClosed():
		return nil, fmt.Errorf("%w: rabbitmq: connection lost", bus.ErrUnavailable)
	case l.blocked != "":
		return nil, fmt.Errorf("%w: rabbitmq: %s", bus.ErrUnavailable, l.blocked)
	}
	return l.conn, nil
}
