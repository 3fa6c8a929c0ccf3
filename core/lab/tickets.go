package lab

import (
	"slices"
	"time"
)

// The states of a run that was asked for.
const (
	Queued  = "queued"
	Running = "running"
	Done    = "done"
	Failed  = "failed" // it could not be made; Error says why
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

type ticket struct {
	Ticket
	events []Event
	change chan struct{} // closed and replaced at every event
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
