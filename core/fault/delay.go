package fault

import (
	"bytes"
	"time"
)

// maxLate bounds the chunks that wait for one connection: 256 of 32 KiB.
const maxLate = 256

// lateQueue holds the delayed replies of one connection, in order, with a
// goroutine that delivers them. From its first delayed reply on, a connection
// sends all its replies this way.
type lateQueue struct {
	chunks chan lateChunk
	ended  chan struct{}
}

type lateChunk struct {
	data []byte
	due  time.Time
	over <-chan struct{} // the rule's end; nil when not delayed
}

// postpone queues a chunk of a reply; f is nil when only order is at stake.
func (l *link) postpone(f *Injected, chunk []byte) bool {
	if l.late == nil {
		l.late = &lateQueue{chunks: make(chan lateChunk, maxLate), ended: make(chan struct{})}
		go l.deliver(l.late)
	}
	c := lateChunk{data: bytes.Clone(chunk)}
	if f != nil {
		c.due, c.over = time.Now().Add(f.rule.Delay), f.done
		f.count(func(n *Counts) { n.Delayed++; n.DelayedBytes += int64(len(chunk)) })
	}
	select {
	case l.late.chunks <- c:
		return true
	case <-l.gone:
		return false
	}
}

// deliver sends queued replies when they are due, until finish or the link's end.
func (l *link) deliver(q *lateQueue) {
	defer close(q.ended)
	for c := range q.chunks {
		if !l.wait(c) || !l.pass(l.client, c.data, &l.received) {
			break
		}
	}
	for range q.chunks { // so that the reply pump is not held up
	}
}

// wait lets a chunk's time pass, or its rule end; false when the link ended.
func (l *link) wait(c lateChunk) bool {
	left := time.Until(c.due)
	if c.over == nil || left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.over:
		return true
	case <-l.gone:
		return false
	}
}

// finish says that no more replies come and waits until all are delivered. A nil
// or finished queue has nothing to wait for.
func (q *lateQueue) finish() {
	if q == nil {
		return
	}
	select {
	case <-q.ended:
	default:
		close(q.chunks)
		<-q.ended
	}
}
