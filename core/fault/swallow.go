package fault

import (
	"bytes"
	"io"
	"time"
)

// arm looks for the bytes that set off a SwallowReplies rule. It runs before the
// request goes on, so that no reply to it can slip past.
func (l *link) arm(chunk []byte) {
	for _, f := range l.proxy.rules.Load().rules {
		if len(f.rule.Arm) == 0 || !f.rule.matches(l.role, l.target) || l.swallow.Load() != nil {
			continue
		}
		if l.arms == nil {
			l.arms = map[*Injected]*matcher{}
		}
		if l.arms[f] == nil {
			l.arms[f] = &matcher{want: f.rule.Arm}
		}
		if l.arms[f].feed(chunk) && f.claim() {
			f.count(func(c *Counts) { c.Armed++ })
			l.swallow.Store(f)
		}
	}
}

// swallows drops n reply bytes if a rule says so.
func (l *link) swallows(n int) bool {
	f := l.swallow.Load()
	if f == nil {
		if f = l.unarmed(); f == nil {
			return false
		}
		l.swallow.Store(f)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.lifted() && !l.holed.Load() { // it ended before it took anything
		l.swallow.Store(nil)
		return false
	}
	first := l.holed.CompareAndSwap(false, true)
	if first && f.rule.CutAfter > 0 {
		l.server.SetReadDeadline(time.Now().Add(f.rule.CutAfter))
	}
	f.count(func(c *Counts) {
		c.SwallowedBytes += int64(n)
		if first {
			c.Swallowed++
		}
	})
	return true
}

// unarmed returns a SwallowReplies rule that needs no arming.
func (l *link) unarmed() *Injected {
	for _, f := range l.proxy.rules.Load().rules {
		if f.rule.Kind == SwallowReplies && len(f.rule.Arm) == 0 && f.rule.matches(l.role, l.target) && f.claim() {
			return f
		}
	}
	return nil
}

// release is told that a rule has ended: a stream with a hole must not go on.
func (l *link) release(f *Injected) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.swallow.Load() == f && l.holed.Load() && l.part(f) {
		l.server.SetReadDeadline(time.Unix(1, 0)) // wakes the reply pump
	}
}

// part resets the client and leaves the server alone. The caller has mu.
func (l *link) part(f *Injected) (first bool) {
	if l.parted || l.ended() {
		return false
	}
	l.parted = true
	shut(l.client, true) // the request pump notices and ends the server's input
	f.count(func(c *Counts) { c.Cut++ })
	return true
}

// drainTime is how long a server may go on reading and answering after its
// client was reset behind its back.
const drainTime = 2 * time.Second

// drain ends a link whose replies were swallowed: the client is reset, the server
// gets a while to read what it was sent and to close.
func (l *link) drain() {
	l.mu.Lock()
	l.part(l.swallow.Load())
	l.server.SetReadDeadline(time.Now().Add(drainTime))
	l.mu.Unlock()
	io.Copy(io.Discard, l.server)
	l.end(false)
}

// matcher finds want in a stream that comes in chunks.
type matcher struct {
	want []byte
	tail []byte // the last bytes seen, fewer than want has
}

// feed takes the next chunk and tells whether want is complete.
func (m *matcher) feed(chunk []byte) bool {
	keep := len(m.want) - 1
	seam := append(m.tail, chunk[:min(keep, len(chunk))]...)
	found := bytes.Contains(seam, m.want) || bytes.Contains(chunk, m.want)
	if len(chunk) >= keep {
		seam = chunk
	}
	m.tail = append([]byte(nil), seam[max(0, len(seam)-keep):]...)
	return found
}
