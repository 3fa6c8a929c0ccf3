package kafka

import (
	"context"
	"net"
	"sync"
	"syscall"

	"outboxplayground/core/bus"
)

// connSet remembers the connections opened through it, so that closing it wakes
// every blocked read at once. kafka-go's readers otherwise sit in a fetch until
// it times out.
type connSet struct {
	mu     sync.Mutex
	open   map[*setConn]struct{}
	closed bool
}

// setConn leaves its set when it is closed.
type setConn struct {
	net.Conn
	set *connSet
}

// dial opens a connection through d, for at most dialLimit.
func (s *connSet) dial(ctx context.Context, d bus.DialFunc, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	raw, err := d(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &setConn{Conn: raw, set: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	if s.open == nil {
		s.open = make(map[*setConn]struct{})
	}
	s.open[c] = struct{}{}
	return c, nil
}

// close closes every connection and refuses new ones.
func (s *connSet) close() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		c.Conn.Close()
	}
}

// Close closes the connection and takes it out of its set.
func (c *setConn) Close() error {
	c.set.mu.Lock()
	delete(c.set.open, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// alive says whether an idle connection can still be written to: nothing waits to
// be read, neither the end of the stream nor an unexpected byte. A connection
// whose socket cannot be looked at counts as alive.
func (c *setConn) alive() bool {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		quiet = socketQuiet(fd)
		return true // never wait for the socket to become readable
	})
	return err == nil && quiet
}
