package brokertest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"outboxplayground/core/bus"
)

// line is a dial hook whose connections can be cut, all at once, and which then
// refuses new ones until it is mended. The zero value is a good line.
type line struct {
	mu     sync.Mutex
	broken bool
	conns  map[net.Conn]struct{}
}

var errCut = errors.New("brokertest: the line is cut")

func (l *line) use(c *bus.Config) { c.Dial = l.dial }

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return nil, errCut
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if l.conns == nil {
		l.conns = map[net.Conn]struct{}{}
	}
	l.conns[c] = struct{}{}
	return c, nil
}

// cut breaks every connection and refuses new ones.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = false
}
