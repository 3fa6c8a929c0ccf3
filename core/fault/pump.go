package fault

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// chunkSize is how much a pump carries at once.
const chunkSize = 32 << 10

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
