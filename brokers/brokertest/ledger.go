package brokertest

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"time"

	"outboxplayground/core/bus"
)

// fate is what is known about one published message.
type fate struct {
	msg   bus.Message // as it was before the bus got hold of it
	place int         // in the order of publishing
	class bus.Class   // the last answer
	err   error       // its text
	asked int         // how many times it was published
}

// delivery is one message in the hands of a handler.
type delivery struct {
	msg    bus.Message
	member string
	began  time.Time
	ended  time.Time // zero while the handler runs
	acked  bool
}

// ledger records what was published and what was delivered, outside the bus.
type ledger struct {
	mu    sync.Mutex
	fates map[string]*fate
	order []string               // ids in the order of publishing
	got   map[string][]*delivery // by group
}

func newLedger() *ledger {
	return &ledger{fates: map[string]*fate{}, got: map[string][]*delivery{}}
}

// publish calls Publish and writes down each outcome.
func (l *ledger) publish(ctx context.Context, b bus.Bus, msgs ...bus.Message) error {
	l.mu.Lock()
	for _, m := range msgs {
		l.open(m)
	}
	l.mu.Unlock()
	err := b.Publish(ctx, msgs...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, m := range msgs {
		out := bus.Outcome(err, i)
		l.fates[m.ID].class, l.fates[m.ID].err = bus.Classify(out), out
	}
	return err
}

// open starts the account of a message. Until the bus answers it is ambiguous.
func (l *ledger) open(m bus.Message) {
	if known := l.fates[m.ID]; known != nil {
		known.asked++
		return
	}
	m.Payload, m.Headers = bytes.Clone(m.Payload), maps.Clone(m.Headers)
	l.fates[m.ID] = &fate{msg: m, place: len(l.order), class: bus.Ambiguous, asked: 1}
	l.order = append(l.order, m.ID)
}

// handler returns a handler that writes deliveries down and then does what act
// says; a nil act acknowledges.
func (l *ledger) handler(group, member string, act bus.Handler) bus.Handler {
	return func(ctx context.Context, m bus.Message) error {
		d := l.begin(group, member, m)
		var err error
		if act != nil {
			err = act(ctx, m)
		}
		l.finish(d, err == nil)
		return err
	}
}

func (l *ledger) begin(group, member string, m bus.Message) *delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.Payload, m.Headers = bytes.Clone(m.Payload), maps.Clone(m.Headers)
	d := &delivery{msg: m, member: member, began: time.Now()}
	l.got[group] = append(l.got[group], d)
	return d
}

func (l *ledger) finish(d *delivery, acked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.ended, d.acked = time.Now(), acked
}

// lookEvery is how often await looks. Looking at every change would cost the
// square of the number of messages.
const lookEvery = 5 * time.Millisecond

// await waits until cond holds, which it evaluates under the lock, and says
// whether it came to hold within the limit.
func (l *ledger) await(ctx context.Context, limit time.Duration, cond func() bool) bool {
	return poll(ctx, limit, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return cond()
	})
}

func poll(ctx context.Context, limit time.Duration, cond func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// ids returns the published messages of a class, in order. Call it unlocked.
func (l *ledger) ids(class bus.Class) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, id := range l.order {
		if l.fates[id].class == class {
			ids = append(ids, id)
		}
	}
	return ids
}

// unsettled counts the accepted messages of a topic that the group has not
// acknowledged. Call it locked.
func (l *ledger) unsettled(topic, group string) int {
	acked := map[string]bool{}
	for _, d := range l.got[group] {
		acked[d.msg.ID] = acked[d.msg.ID] || d.acked
	}
	n := 0
	for id, f := range l.fates {
		if f.class == bus.Accepted && f.msg.Topic == topic && !acked[id] {
			n++
		}
	}
	return n
}

// published counts the messages so far.
func (l *ledger) published() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// deliveries counts those of a group that keep says to count. Call it locked.
func (l *ledger) deliveries(group string, keep func(*delivery) bool) int {
	n := 0
	for _, d := range l.got[group] {
		if keep(d) {
			n++
		}
	}
	return n
}
