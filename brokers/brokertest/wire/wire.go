// Package wire gives a driver's test a connection whose two directions can be held
// back one by one: replies that are on their way, or requests that nobody reads. The
// fault proxy of core/fault holds both at once.
package wire

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Wire is a dial hook whose connections a test can cut, refuse and hold back. The
// zero value lets everything through. Safe for concurrent use.
type Wire struct {
	mu       sync.Mutex
	refuse   bool
	replies  chan struct{} // non-nil: nothing comes back from the server until it is closed
	requests chan struct{} // non-nil: nothing more is read from the client until it is closed
	conns    []net.Conn
}

// Dial opens a connection; it is a bus.DialFunc.
func (w *Wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse {
		return nil, errors.New("refused by the test")
	}
	up, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, inner := net.Pipe()
	w.conns = append(w.conns, up, inner)
	go func() { w.copy(up, inner, &w.requests); up.Close() }()
	go func() { w.copy(inner, up, &w.replies); inner.Close() }()
	return client, nil
}

// copy stops before a write for as long as the gate is shut.
func (w *Wire) copy(to, from net.Conn, gate *chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		wait := *gate
		w.mu.Unlock()
		if wait != nil {
			<-wait
		}
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// Hold keeps the server's bytes back; the returned function lets them go.
func (w *Wire) Hold() (release func()) { return w.shut(&w.replies) }

// Stall leaves the client's bytes where they are; the returned function takes them.
func (w *Wire) Stall() (release func()) { return w.shut(&w.requests) }

func (w *Wire) shut(gate *chan struct{}) (open func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := make(chan struct{})
	*gate = wait
	return sync.OnceFunc(func() {
		w.mu.Lock()
		*gate = nil
		w.mu.Unlock()
		close(wait)
	})
}

// Cut closes every connection and, if asked to, refuses new ones.
func (w *Wire) Cut(refuse bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = refuse
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// Heal lets new connections through again.
func (w *Wire) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = false
}
