package fault

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunkSize = 32 << 10
	// drainTime is how long a server may go on reading and answering after its
	// client was reset behind its back.
	drainTime = 2 * time.Second
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

// run carries bytes until both directions have ended.
func (l *link) run() {
	var requests sync.WaitGroup
	requests.Go(l.requests)
	l.replies()
	requests.Wait()
	l.end(false)
}

// requests carries bytes from the client to the server.
func (l *link) requests() {
	buf := make([]byte, chunkSize)
	for {
		n, err := l.client.Read(buf)
		if n > 0 {
			l.arm(buf[:n])
			if !l.pass(l.server, buf[:n], &l.sent) {
				return
			}
		}
		if err != nil {
			l.stop(err, l.server)
			return
		}
	}
}

// replies carries bytes from the server to the client.
func (l *link) replies() {
	defer func() { l.late.finish() }()
	buf := make([]byte, chunkSize)
	for {
		n, err := l.server.Read(buf)
		if n > 0 && !l.reply(buf[:n]) {
			return
		}
		if err == nil {
			continue
		}
		if l.holed.Load() {
			l.drain()
			return
		}
		l.late.finish()
		l.stop(err, l.client)
		return
	}
}

// reply deals with one chunk of a reply; false ends the pump.
func (l *link) reply(chunk []byte) bool {
	if l.swallows(len(chunk)) {
		return true
	}
	f := l.proxy.rules.Load().first(l.role, l.target, Delay)
	if f == nil && l.late == nil {
		return l.pass(l.client, chunk, &l.received)
	}
	return l.postpone(f, chunk)
}

// stop ends one direction as its source did: an end of stream is passed on as
// such, any other error breaks the link. A server whose replies are swallowed is
// always let finish, so that all it was sent is also read.
func (l *link) stop(err error, to halfCloser) {
	if errors.Is(err, io.EOF) || l.holed.Load() {
		to.CloseWrite()
		return
	}
	l.end(true)
}

// pass writes a chunk as soon as no Stall is on; false ends the pump. After a
// failed write the other pump goes on: what the broken side had sent before is
// still to be delivered, and then its read ends the link.
func (l *link) pass(to net.Conn, chunk []byte, total *atomic.Int64) bool {
	if !l.gate(len(chunk)) {
		return false
	}
	n, err := to.Write(chunk)
	total.Add(int64(n))
	return err == nil
}

// gate holds n bytes while a Stall is on; false when the link ended meanwhile.
func (l *link) gate(n int) bool {
	var counted *Injected
	for {
		rules := l.proxy.rules.Load()
		f := rules.first(l.role, l.target, Stall)
		if f == nil {
			return true
		}
		if f != counted {
			f.count(func(c *Counts) { c.Held++; c.HeldBytes += int64(n) })
			counted = f
		}
		select {
		case <-rules.changed:
		case <-l.gone:
			return false
		}
	}
}
