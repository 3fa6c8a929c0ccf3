package fault

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// halfCloser is a connection that can say "no more from me" and still read.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// link is one client's connection and the server's connection it stands for.
type link struct {
	role, network, target string
	since                 time.Time
	proxy                 *Proxy
	client                *net.TCPConn
	server                halfCloser // set by adopt
	sent, received        atomic.Int64

	gone chan struct{} // closed by end
	once sync.Once

	swallow atomic.Pointer[Injected] // the rule that takes this link's replies
	mu      sync.Mutex               // orders swallowing and adopting against an end
	holed   atomic.Bool              // reply bytes are missing: the stream is useless
	parted  bool                     // the client was reset, the server may finish; by mu

	arms map[*Injected]*matcher // request pump only
	late *lateQueue             // reply pump only; nil until a reply was delayed
}

// greet reads the opening line.
func (l *link) greet() bool {
	l.client.SetReadDeadline(time.Now().Add(openingTimeout))
	line, err := readLine(l.client, maxOpening)
	if err != nil {
		return false
	}
	w, err := parseOpening(line)
	if err != nil {
		l.client.Write([]byte(err.Error()[:min(len(err.Error()), maxAnswer-1)] + "\n"))
		return false
	}
	l.role, l.network, l.target = w.Role, w.Network, w.Addr
	return l.client.SetReadDeadline(time.Time{}) == nil
}

// end closes both sides, with a reset when cut; it tells whether it was the first
// to do so.
func (l *link) end(cut bool) (first bool) {
	l.once.Do(func() {
		first = true
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.gone)
		shut(l.client, cut)
		if l.server != nil {
			shut(l.server, cut)
		}
	})
	return first
}

// adopt takes the server's connection, or closes it when the link has ended.
func (l *link) adopt(server halfCloser) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended() {
		server.Close()
		return false
	}
	l.server = server
	return true
}

func (l *link) ended() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// shut closes c. A reset also throws away what the peer has not received yet; a
// unix socket knows no reset, its peer reads the end of the stream.
func shut(c net.Conn, reset bool) {
	if tcp, ok := c.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0)
	}
	c.Close()
}
