package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"outboxplayground/core/bus"
)

const (
	// dialTime bounds a dial. The client holds its lock meanwhile, and does not
	// bound a custom dialer by its own Timeout.
	dialTime     = time.Second
	redialPause  = 200 * time.Millisecond
	firstAttempt = 2 * time.Second
	// writeTime bounds a write into a socket that nobody empties. The client holds
	// its lock meanwhile, so that its own pings cannot notice.
	writeTime = 2 * time.Second
	// Two unanswered pings end a connection.
	pingEvery = 3 * time.Second
	goodbye   = 500 * time.Millisecond
)

// line knows whether the client is connected without asking it: the client would
// make the caller wait while it dials. Safe for concurrent use.
type line struct {
	life  *bus.Lifetime
	dial  bus.DialFunc
	first chan struct{} // closed at the first connection
	ended chan struct{} // closed when the client has let go of everything

	mu     sync.Mutex
	up     bool
	why    error         // why not
	down   chan struct{} // closed when the connection of now is lost
	sock   net.Conn
	giveUp context.CancelFunc // of the dial
}

func newLine(life *bus.Lifetime, dial bus.DialFunc) *line {
	return &line{life: life, dial: dial, first: make(chan struct{}), ended: make(chan struct{}),
		why: errors.New("connecting"), down: make(chan struct{})}
}

// Dial is called by the client for every connection.
func (l *line) Dial(network, addr string) (net.Conn, error) {
	ctx, end := l.life.Bound(context.Background())
	defer end()
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	l.mu.Lock()
	l.fall()
	l.giveUp, l.sock = cancel, nil
	l.mu.Unlock()
	raw, err := l.dial(ctx, network, addr)
	if err != nil {
		l.set(false, err)
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sock = raw
	return &socket{raw}, nil
}

// socket closes itself when a write fails, because the client would only notice
// at its next pings, and go on writing after half a message.
type socket struct{ net.Conn }

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if err != nil {
		s.Conn.Close()
	}
	return n, err
}

func (l *line) set(up bool, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = why
	if !up {
		l.fall()
		return
	}
	l.up = true
	select {
	case <-l.first:
	default:
		close(l.first)
	}
}

// fall notes that there is no connection, locked.
func (l *line) fall() {
	if l.up {
		close(l.down)
		l.down = make(chan struct{})
	}
	l.up = false
}

// lost returns a channel that is closed at the next loss of the connection.
func (l *line) lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// err is nil while connected, else ErrUnavailable with the reason.
func (l *line) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up {
		return nil
	}
	return fmt.Errorf("%w: nats: not connected: %w", bus.ErrUnavailable, l.why)
}

// hangUp closes the client and waits until it is gone.
func (l *line) hangUp(nc *natsgo.Conn) {
	l.set(false, errors.New("bus closed"))
	if nc == nil {
		return
	}
	// Closing flushes under the client's lock, which a stalled socket would hold.
	t := time.AfterFunc(goodbye, l.abort)
	defer t.Stop()
	nc.Close()
	<-l.ended
}

// abort interrupts a dial, a greeting or a write that is going on.
func (l *line) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.giveUp != nil {
		l.giveUp()
	}
	if l.sock != nil {
		l.sock.Close()
	}
}
