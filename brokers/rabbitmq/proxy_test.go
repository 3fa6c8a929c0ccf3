package rabbitmq

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// faulty is a dial hook whose connections a test can cut, refuse and stall.
type faulty struct {
	mu      sync.Mutex
	refuse  bool
	replies chan struct{} // non-nil: nothing comes back from the server until it is closed
	conns   []net.Conn
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
	go func() { _, _ = io.Copy(up, inner); up.Close() }()
	go func() { f.back(inner, up); inner.Close() }()
	return client, nil
}

func (f *faulty) back(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		f.mu.Lock()
		wait := f.replies
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
func (f *faulty) hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := make(chan struct{})
	f.replies = wait
	return sync.OnceFunc(func() {
		f.mu.Lock()
		f.replies = nil
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
