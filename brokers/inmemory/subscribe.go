package inmemory

import (
	"context"
	"fmt"
	"time"

	"outboxplayground/core/bus"
)

// subscription is one living Subscribe.
type subscription struct {
	topic, group string
	cancel       context.CancelFunc
}

// Subscribe takes one message at a time from the group's queue, which it makes
// if nobody prepared it. After Close it returns an error that wraps
// ErrUnavailable, because no reconnection brings a closed bus back.
func (b *Bus) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &subscription{topic: topic, group: group, cancel: cancel}
	if err := b.join(s); err != nil {
		return err
	}
	defer b.leave(s)
	for {
		e, q := b.next(life, s)
		if q == nil {
			return b.farewell(ctx)
		}
		b.settle(life, q, e, h(life, clone(e.msg)))
	}
}

func (b *Bus) join(s *subscription) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("inmemory: closed: %w", bus.ErrUnavailable)
	}
	b.subs[s] = struct{}{}
	b.queue(s.topic, s.group)
	return nil
}

func (b *Bus) leave(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
}

// farewell tells the caller's cancellation, which is success, from Close.
func (b *Bus) farewell(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("inmemory: closed: %w", bus.ErrUnavailable)
}

// next waits for a message. A nil queue means that the subscription's life ended.
func (b *Bus) next(life context.Context, s *subscription) (entry, *queue) {
	for life.Err() == nil {
		e, q, wake, due := b.poll(s)
		if q != nil {
			return e, q
		}
		wait(life, wake, due)
	}
	return entry{}, nil
}

// poll takes a message if there is one, else it says what to wait for. It looks
// the queue up each time, so that a topic removed and prepared again is found.
func (b *Bus) poll(s *subscription) (e entry, from *queue, wake <-chan struct{}, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return e, nil, nil, due // life has ended too: Close cancelled it
	}
	q := b.queue(s.topic, s.group)
	e, ok, due := q.take(time.Now())
	if ok {
		from = q
	}
	return e, from, q.wake, due
}

// wait returns when a message may be there: at a signal, or when due.
func wait(life context.Context, wake <-chan struct{}, due time.Time) {
	var alarm <-chan time.Time // never, unless something pauses
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-life.Done():
	case <-wake:
	case <-alarm:
	}
}

// settle acts on what the handler said. An error after the subscription's life
// ended is no verdict on the message: it goes straight back for another member.
func (b *Bus) settle(life context.Context, q *queue, e entry, handlerErr error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case handlerErr == nil:
		q.acknowledge()
	case life.Err() != nil:
		q.giveBack(e)
	default:
		q.pause(e, time.Now().Add(b.opt.RedeliveryDelay))
	}
}
