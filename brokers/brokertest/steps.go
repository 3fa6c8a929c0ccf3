package brokertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"outboxplayground/core/bus"
)

// message makes a small message with an id of its own. The key is one of seven,
// so that order within a key and over the topic are different things.
func message(topic string, n int) bus.Message {
	return bus.Message{
		ID:      uuid.NewString(),
		Topic:   topic,
		Key:     fmt.Sprintf("user-%d", n%7),
		Payload: fmt.Appendf(nil, `{"n":%d}`, n),
		Headers: map[string]string{"n": fmt.Sprint(n)},
	}
}

func messages(topic string, n int) []bus.Message {
	msgs := make([]bus.Message, n)
	for i := range msgs {
		msgs[i] = message(topic, i)
	}
	return msgs
}

// accept publishes what must be accepted: nothing is wrong with the bus or the
// messages.
func (tr *trial) accept(ctx context.Context, b bus.Bus, msgs ...bus.Message) {
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	err := tr.ledger.publish(ctx, b, msgs...)
	for i, m := range msgs {
		if out := bus.Outcome(err, i); out != nil {
			tr.violate(WrongClass, []string{m.ID}, "nothing is wrong, and yet message %d of %d was %s: %v",
				i+1, len(msgs), bus.Classify(out), out)
			return
		}
	}
}

// sub is a subscription that runs.
type sub struct {
	tr     *trial
	cancel context.CancelFunc
	done   chan error // one answer, then closed
	name   string
}

// subscribe runs a member of a group; its handler does act, or acknowledges.
func (tr *trial) subscribe(ctx context.Context, b bus.Bus, topic, group, member string, act bus.Handler) *sub {
	ctx, cancel := context.WithCancel(ctx)
	s := &sub{tr: tr, cancel: cancel, done: make(chan error, 1), name: group + "/" + member}
	tr.subs = append(tr.subs, s)
	h := tr.ledger.handler(group, member, act)
	go func() {
		defer close(s.done)
		tr.guard(func() { s.done <- b.Subscribe(ctx, topic, group, h) })
	}()
	return s
}

// stop cancels the subscription and waits for it. It may be called again.
func (s *sub) stop() {
	s.cancel()
	select {
	case err := <-s.done:
		// A bus that was closed under the subscription may say so.
		if err != nil && bus.Classify(err) != bus.Unavailable {
			s.tr.violate(Failed, nil, "Subscribe of %s returned %v after its context ended, want nil", s.name, err)
		}
	case <-time.After(stopWithin):
		s.tr.violate(Hangs, nil, "Subscribe of %s did not return within %v of its cancellation", s.name, stopWithin)
		s.done = make(chan error, 1) // a second stop does not wait and complain again
		s.done <- nil
	}
}

// settle waits until each group has acknowledged everything accepted on the
// topic and nothing comes any more. What is missing then is the verdict's matter.
func (tr *trial) settle(ctx context.Context, b bus.Bus, topic string, groups ...string) {
	for _, g := range groups {
		tr.progress(ctx, g, func() bool { return tr.ledger.unsettled(topic, g) == 0 })
		tr.drained(ctx, b, topic, g)
		tr.quiet(ctx, g)
	}
}

// progress waits until done holds, however long that takes, as long as the group
// gets something now and then: a slow bus has not lost anything.
func (tr *trial) progress(ctx context.Context, group string, done func() bool) bool {
	limit := tr.f.Patience + tr.f.RedeliveryWithin
	last, since := -1, time.Now()
	finished := false
	tr.ledger.await(ctx, checkTimeout, func() bool {
		if n := len(tr.ledger.got[group]); n != last {
			last, since = n, time.Now()
		}
		finished = done()
		return finished || time.Since(since) > limit
	})
	return finished
}

// drained waits until the broker says that it holds nothing for the group: so
// what was never accepted, but stored, has had its chance to arrive.
func (tr *trial) drained(ctx context.Context, b bus.Bus, topic, group string) {
	bl, ok := b.(bus.Backlogger)
	if !ok {
		return
	}
	poll(ctx, tr.f.RedeliveryWithin+drainSlack, func() bool {
		n, err := bl.Backlog(ctx, topic, group)
		return err == nil && n == 0
	})
}

const (
	drainSlack = 2 * time.Second
	quietFor   = 200 * time.Millisecond
)

// quiet waits until nothing has come for a moment.
func (tr *trial) quiet(ctx context.Context, group string) {
	last, since := -1, time.Now()
	poll(ctx, drainSlack, func() bool {
		tr.ledger.mu.Lock()
		defer tr.ledger.mu.Unlock()
		if n := len(tr.ledger.got[group]); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > quietFor
	})
}

// conclude settles the groups and adds what the ledger says about them.
func (tr *trial) conclude(ctx context.Context, b bus.Bus, topic string, t terms, groups ...string) {
	tr.settle(ctx, b, topic, groups...)
	for _, g := range groups {
		tr.add(tr.ledger.verdict(topic, g, t)...)
	}
}

// class reports an outcome that is not one of those wanted.
func (tr *trial) class(id string, err error, what string, want ...bus.Class) {
	got := bus.Classify(err)
	names := make([]string, len(want))
	for i, w := range want {
		if got == w {
			return
		}
		names[i] = w.String()
	}
	tr.violate(WrongClass, []string{id}, "%s: want %s, got %s (%v)",
		what, strings.Join(names, " or "), got, err)
}

// pace is the fastest of some answers. A bus that waits for something does so every
// time, a busy machine does not: so only the best time is judged. Safe for
// concurrent use.
type pace struct {
	mu   sync.Mutex
	laps int
	best time.Duration
}

func (p *pace) lap(began time.Time) {
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.laps++; p.laps == 1 || took < p.best {
		p.best = took
	}
}

// within reports a pace that is too slow.
func (tr *trial) within(p *pace, limit time.Duration, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.best > limit {
		tr.violate(Late, nil, "%s took %v (the best of %d), the limit is %v",
			what, p.best.Round(time.Millisecond), p.laps, limit)
	}
}

// since is the pace of a single answer.
func since(began time.Time) *pace {
	p := &pace{}
	p.lap(began)
	return p
}
