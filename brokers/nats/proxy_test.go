package nats

import (
	"context"
	"errors"
	"net"
	"sync"
)

// faulty is a dial hook whose connections a test can cut, refuse and stall.
type faulty struct {
	mu       sync.Mutex
	refuse   bool
	replies  chan struct{} // non-nil: nothing comes back from the server until it is closed
	requests chan struct{} // non-nil: nothing more is read from the client until it is closed
	conns    []net.Conn
}

func (f *faulty) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse {
		return nil, errors.New("refused by the test")
	}
	up, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, inner := net.Pipe()
	f.conns = append(f.conns, up, inner)
	go func() { f.copy(up, inner, &f.requests); up.Close() }()
	go func() { f.copy(inner, up, &f.replies); inner.Close() }()
	return client, nil
}

// copy stops before a write for as long as the gate is shut.
func (f *faulty) copy(to, from net.Conn, gate *chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		f.mu.Lock()
		wait := *gate
		f.mu.Unlock()
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

// hold keeps the server's bytes back; the returned function lets them go.
func (f *faulty) hold() (release func()) { return f.shut(&f.replies) }

// stall leaves the client's bytes where they are; the returned function takes them.
func (f *faulty) stall() (release func()) { return f.shut(&f.requests) }

func (f *faulty) shut(gate *chan struct{}) (open func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := make(chan struct{})
	*gate = wait
	return sync.OnceFunc(func() {
		f.mu.Lock()
		*gate = nil
		f.mu.Unlock()
		close(wait)
	})
}

// cut closes every connection and, if asked to, refuses new ones.
func (f *faulty) cut(refuse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}

func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = false
}
