package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"outboxplayground/core/pg"
)

// The states of a run that was asked for.
const (
	Queued  = "queued"
	Running = "running"
	Done    = "done"
	Failed  = "failed" // it could not be made; Error says why
)

// ErrQueueFull: as many runs are waiting as may wait.
var ErrQueueFull = errors.New("the queue of runs is full")

// The bounds of a Queue.
const (
	QueueWorkers = 3
	QueueLength  = 32
	keptTickets  = 200 // finished ones, whose progress can still be read
)

// Ticket is a run that was asked for.
type Ticket struct {
	ID     string    `json:"id"`
	State  string    `json:"state"`
	Spec   Spec      `json:"spec"`
	Error  string    `json:"error,omitempty"`
	Report *Report   `json:"report,omitempty"`
	Since  time.Time `json:"since"`
}

// Event is one step of a run's progress, numbered from 1.
type Event struct {
	Seq int `json:"seq"`
	Progress
	State string `json:"state"`
}

// Queue makes runs that were asked for, a few at a time, and keeps their results.
// Its methods are safe for concurrent use.
type Queue struct {
	lab *Lab
	db  pg.DB // works in the playground's schema
	in  chan *ticket

	mu      sync.Mutex
	tickets []*ticket // in the order of asking
}

type ticket struct {
	Ticket
	events []Event
	change chan struct{} // closed and replaced at every event
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

// forget drops the oldest finished tickets; their results are in the table. The
// caller has mu.
func (q *Queue) forget() {
	for over := len(q.tickets) - keptTickets; over > 0; over-- {
		i := slices.IndexFunc(q.tickets, func(t *ticket) bool { return t.State == Done || t.State == Failed })
		if i < 0 {
			return
		}
		q.tickets = slices.Delete(q.tickets, i, i+1)
	}
}

// say adds an event. The caller has mu.
func (t *ticket) say(p Progress) {
	t.events = append(t.events, Event{Seq: len(t.events) + 1, Progress: p, State: t.State})
	close(t.change)
	t.change = make(chan struct{})
}

func (q *Queue) tell(t *ticket, p Progress) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.say(p)
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

// throttle lets through every new stage, and within one at most ten events a second.
func throttle(tell func(Progress)) func(Progress) {
	var stage string
	var last time.Time
	return func(p Progress) {
		if p.Stage == stage && p.Done < p.Total && time.Since(last) < 100*time.Millisecond {
			return
		}
		stage, last = p.Stage, time.Now()
		tell(p)
	}
}

// Get returns a ticket that is still remembered.
func (q *Queue) Get(id string) (Ticket, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.find(id); t != nil {
		return t.Ticket, true
	}
	return Ticket{}, false
}

// List returns the remembered tickets, the newest first.
func (q *Queue) List() []Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]Ticket, 0, len(q.tickets))
	for _, t := range slices.Backward(q.tickets) {
		list = append(list, t.Ticket)
	}
	return list
}

// Events returns the events after number seq, whether these are the last ones, and
// a channel that is closed when there are more. ok is false for an unknown run.
func (q *Queue) Events(id string, seq int) (events []Event, over bool, more <-chan struct{}, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.find(id)
	if t == nil {
		return nil, false, nil, false
	}
	if seq < 0 || seq > len(t.events) {
		seq = 0
	}
	return slices.Clone(t.events[seq:]), t.State == Done || t.State == Failed, t.change, true
}

func (q *Queue) find(id string) *ticket {
	i := slices.IndexFunc(q.tickets, func(t *ticket) bool { return t.ID == id })
	if i < 0 {
		return nil
	}
	return q.tickets[i]
}
