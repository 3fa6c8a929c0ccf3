package inmemory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"outboxplayground/core/bus"
)

// entry is a message with its place in the order of acceptance.
type entry struct {
	seq uint64
	msg bus.Message
}

// pausing is an entry whose handler failed, and when it may come again.
type pausing struct {
	entry
	due time.Time
}

// queue is what one group has not acknowledged. The lock of the bus guards it.
type queue struct {
	ready  []entry       // by seq
	paused []pausing     // by due
	inHand int           // with a handler now
	wake   chan struct{} // closed and replaced whenever something may be taken
}

func newQueue() *queue { return &queue{wake: make(chan struct{})} }

func (q *queue) backlog() int { return len(q.ready) + len(q.paused) + q.inHand }

// put adds a new entry at the end.
func (q *queue) put(e entry) {
	q.ready = append(q.ready, e)
	q.signal()
}

// take hands out the oldest entry whose time has come. Without one it says when
// to look again; the zero time means not before the next signal.
func (q *queue) take(now time.Time) (e entry, ok bool, next time.Time) {
	for len(q.paused) > 0 && !q.paused[0].due.After(now) {
		q.insert(q.paused[0].entry)
		q.paused = q.paused[1:]
	}
	if len(q.ready) > 0 {
		e, q.ready[0] = q.ready[0], entry{} // zeroed, so that the payload can be freed
		q.ready = q.ready[1:]
		q.inHand++
		return e, true, time.Time{}
	}
	if len(q.paused) > 0 {
		next = q.paused[0].due
	}
	return entry{}, false, next
}

// acknowledge forgets an entry that was in hand.
func (q *queue) acknowledge() { q.inHand-- }

// giveBack returns an entry from hand to its old place, which is the front or
// close to it.
func (q *queue) giveBack(e entry) {
	q.inHand--
	q.insert(e)
	q.signal()
}

// pause returns an entry from hand, to be taken again when it is due. The signal
// lets a waiting member set its timer.
func (q *queue) pause(e entry, due time.Time) {
	q.inHand--
	q.paused = append(q.paused, pausing{entry: e, due: due})
	q.signal()
}

func (q *queue) insert(e entry) {
	i, _ := slices.BinarySearchFunc(q.ready, e.seq, func(x entry, seq uint64) int {
		return cmp.Compare(x.seq, seq)
	})
	q.ready = slices.Insert(q.ready, i, e)
}

func (q *queue) signal() {
	close(q.wake)
	q.wake = make(chan struct{})
}

// clone cuts every tie between a publisher's or subscriber's slices and maps and
// those in the queue.
func clone(m bus.Message) bus.Message {
	m.Payload = bytes.Clone(m.Payload)
	m.Headers = maps.Clone(m.Headers)
	return m
}
