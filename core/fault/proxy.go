package fault

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy carries connections and breaks them on demand. Safe for concurrent use.
type Proxy struct {
	listener net.Listener
	cancel   context.CancelFunc
	handlers sync.WaitGroup
	rules    atomic.Pointer[ruleset]

	mu     sync.Mutex // guards changes of rules, and links
	links  map[*link]struct{}
	closed bool
}

// Listen starts a proxy on a free port of 127.0.0.1. Close it after use.
func Listen() (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{listener: listener, cancel: cancel, links: map[*link]struct{}{}}
	p.rules.Store(newRuleset(nil))
	p.handlers.Go(func() { p.accept(ctx) })
	return p, nil
}

// Addr is the proxy's host:port, to be handed to Dialer in another process.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Dialer returns a dial function for a client of this process; see the function
// of the same name.
func (p *Proxy) Dialer(role string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return Dialer(p.Addr(), role)
}

// Close resets every connection, ends every rule and waits until nothing of the
// proxy runs any more. It may be called twice.
func (p *Proxy) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	var err error
	if first {
		err = p.listener.Close()
	}
	p.cancel()
	p.handlers.Wait()
	for _, f := range p.rules.Load().rules {
		f.Lift()
	}
	return err
}

// accept serves until the listener is closed.
func (p *Proxy) accept(ctx context.Context) {
	for {
		conn, err := p.listener.Accept()
		switch {
		case err == nil:
			p.handlers.Go(func() { p.handle(ctx, conn.(*net.TCPConn)) })
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of file descriptors, say: let some be given back first
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// forget drops a link that has ended, and the rule that was spent on it.
func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	if f := l.swallow.Load(); f != nil && f.rule.Once {
		f.Lift()
	}
}

// Connection is one open connection, as Connections lists it.
type Connection struct {
	Role, Network, Target string
	Since                 time.Time
	Sent, Received        int64 // bytes that reached the server, and the client
}

// Connections lists what is open now, oldest first: it answers whether a client's
// traffic comes through here at all.
func (p *Proxy) Connections() []Connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []Connection{}
	for l := range p.links {
		list = append(list, Connection{
			Role: l.role, Network: l.network, Target: l.target, Since: l.since,
			Sent: l.sent.Load(), Received: l.received.Load(),
		})
	}
	slices.SortFunc(list, func(a, b Connection) int { return a.Since.Compare(b.Since) })
	return list
}
