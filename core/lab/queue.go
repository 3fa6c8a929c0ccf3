package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"outboxplayground/core/pg"
)

// ErrQueueFull: as many runs are waiting as may wait.
var ErrQueueFull = errors.New("the queue of runs is full")

// The bounds of a Queue.
const (
	QueueWorkers = 3
	QueueLength  = 32
	keptTickets  = 200 // finished ones, whose progress can still be read
)

// Queue makes runs that were asked for, a few at a time, and keeps their results.
// Its methods are safe for concurrent use.
type Queue struct {
	lab *Lab
	db  pg.DB // works in the playground's schema
	in  chan *ticket

	mu      sync.Mutex
	tickets []*ticket // in the order of asking
}

// NewQueue makes a queue that stores results through db. Run makes it work.
func NewQueue(l *Lab, db pg.DB) *Queue {
	return &Queue{lab: l, db: db, in: make(chan *ticket, QueueLength)}
}

// Run works until ctx ends and the runs under way have cleaned up.
func (q *Queue) Run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for range QueueWorkers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case t := <-q.in:
					q.make(ctx, t)
				}
			}
		})
	}
}

// Submit asks for a run. ErrSpec and its kin come at once, ErrQueueFull when too
// many are waiting.
func (q *Queue) Submit(spec Spec) (Ticket, error) {
	spec = spec.withDefaults()
	c, v, _, err := spec.check(q.lab.Chapters, append(Faults(), q.lab.Extra...))
	if err != nil {
		return Ticket{}, err
	}
	if _, _, err := q.lab.Bus(spec.Bus); err != nil {
		return Ticket{}, err
	}
	spec.Chapter, spec.Variant = c.Number, v.Name
	t := &ticket{Ticket: Ticket{ID: newRunID(), State: Queued, Spec: spec, Since: time.Now().UTC()}, change: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case q.in <- t:
	default:
		return Ticket{}, ErrQueueFull
	}
	q.tickets = append(q.tickets, t)
	q.forget()
	t.say(Progress{Stage: Queued, Total: spec.Orders})
	return t.Ticket, nil
}

// make makes one run. Whatever happens, the ticket ends as Done or Failed.
func (q *Queue) make(ctx context.Context, t *ticket) {
	q.mu.Lock()
	t.State = Running
	q.mu.Unlock()
	res, err := q.attempt(ctx, t)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		t.State, t.Error = Failed, err.Error()
		t.say(Progress{Stage: Failed, Total: t.Spec.Orders, Text: t.Error})
		return
	}
	t.State, t.Report = Done, &res.Report
	t.say(Progress{Stage: Done, Done: t.Spec.Orders, Total: t.Spec.Orders, Text: "valid: " + string(res.Report.Valid)})
}

// attempt turns a panic of the lab into a failed run: one bad experiment must not
// end the playground.
func (q *Queue) attempt(ctx context.Context, t *ticket) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the lab broke: %v", p)
		}
	}()
	res, err = q.lab.runAs(ctx, t.ID, t.Spec, nil, throttle(func(p Progress) { q.tell(t, p) }))
	if err != nil {
		return res, err
	}
	return res, Save(ctx, q.db, res)
}
