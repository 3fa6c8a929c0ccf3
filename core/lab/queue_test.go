package lab

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// hopeless is a queue whose runs all fail fast: nothing listens at its database.
// It works from the time of the first call of start, until the test ends.
func hopeless(t *testing.T) (q *Queue, start func()) {
	t.Helper()
	l := &Lab{Chapters: testChapters(), DatabaseURL: "postgres://someone:secret@127.0.0.1:1/none?connect_timeout=2",
		Bus: func(name string) (BusInfo, string, error) {
			switch name {
			case "nats":
				return BusInfo{Name: name}, "nats://127.0.0.1:1", nil
			case "redis":
				return BusInfo{}, "", ErrBusOff
			}
			return BusInfo{}, "", ErrUnknownBus
		}}
	q = NewQueue(l, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	t.Cleanup(func() { cancel(); work.Wait() })
	return q, func() { work.Go(func() { q.Run(ctx) }) }
}

// end follows a run to its end.
func end(t *testing.T, q *Queue, id string) (Ticket, []Event) {
	t.Helper()
	var all []Event
	limit := time.After(20 * time.Second)
	for {
		events, over, more, ok := q.Events(id, len(all))
		if !ok {
			t.Fatalf("run %s is unknown", id)
		}
		all = append(all, events...)
		if over {
			ticket, _ := q.Get(id)
			return ticket, all
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("run %s does not end: %+v", id, all)
		}
	}
}

func TestQueueRefusesAtOnce(t *testing.T) {
	q, _ := hopeless(t)
	for want, spec := range map[error]Spec{
		ErrSpec:          {Chapter: 9, Bus: "nats"},
		ErrNotApplicable: {Chapter: 1, Bus: "nats", Fault: "two-relays"},
		ErrBusOff:        {Chapter: 1, Bus: "redis"},
		ErrUnknownBus:    {Chapter: 1, Bus: "pigeon"},
	} {
		if ticket, err := q.Submit(spec); !errors.Is(err, want) || ticket.ID != "" {
			t.Errorf("%+v: %+v, %v; want %v", spec, ticket, err, want)
		}
	}
	if list := q.List(); len(list) != 0 {
		t.Errorf("refused runs are listed: %+v", list)
	}
}

func TestQueueIsBounded(t *testing.T) {
	q, start := hopeless(t)
	var ids []string
	for range QueueLength {
		ticket, err := q.Submit(Spec{Chapter: 1, Bus: "nats"})
		if err != nil {
			t.Fatal(err)
		}
		if ticket.State != Queued || ticket.Spec.Variant != "write-first" || ticket.Spec.Orders != 47 || ticket.Spec.Fault != "none" {
			t.Fatalf("%+v", ticket)
		}
		ids = append(ids, ticket.ID)
	}
	if _, err := q.Submit(Spec{Chapter: 1, Bus: "nats"}); !errors.Is(err, ErrQueueFull) {
		t.Errorf("one more than %d: %v", QueueLength, err)
	}
	if list := q.List(); len(list) != QueueLength || list[0].ID != ids[QueueLength-1] {
		t.Errorf("%d tickets are listed, the newest is %s, want %s", len(list), list[0].ID, ids[QueueLength-1])
	}
	start()
	for _, id := range ids {
		if ticket, _ := end(t, q, id); ticket.State != Failed {
			t.Errorf("%+v", ticket)
		}
	}
	if _, err := q.Submit(Spec{Chapter: 1, Bus: "nats"}); err != nil {
		t.Errorf("after the queue is empty again: %v", err)
	}
}

func TestQueueTellsWhatBecameOfARun(t *testing.T) {
	q, start := hopeless(t)
	asked, err := q.Submit(Spec{Chapter: 1, Bus: "nats"})
	if err != nil {
		t.Fatal(err)
	}
	events, over, _, ok := q.Events(asked.ID, 0)
	if !ok || over || len(events) != 1 || events[0].State != Queued || events[0].Stage != Queued {
		t.Errorf("before it begins: %+v, over %v", events, over)
	}
	start()
	ticket, all := end(t, q, asked.ID)
	if ticket.State != Failed || ticket.Error == "" || strings.Contains(ticket.Error, "secret") || ticket.Report != nil {
		t.Errorf("%+v", ticket)
	}
	for i, e := range all {
		if e.Seq != i+1 {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	if last := all[len(all)-1]; last.State != Failed || last.Text != ticket.Error {
		t.Errorf("the last event: %+v", last)
	}
	rest, over, _, _ := q.Events(asked.ID, len(all)-1)
	if len(rest) != 1 || !over || rest[0].Seq != len(all) {
		t.Errorf("resumed after event %d: %+v, over %v", len(all)-1, rest, over)
	}
	if rest, over, _, _ := q.Events(asked.ID, len(all)); len(rest) != 0 || !over {
		t.Errorf("resumed after the last: %+v", rest)
	}
	for _, nonsense := range []int{-1, 1000} {
		if again, _, _, _ := q.Events(asked.ID, nonsense); len(again) != len(all) {
			t.Errorf("resumed after event %d: %d events, want all %d", nonsense, len(again), len(all))
		}
	}
	if _, _, _, ok := q.Events("nobody", 0); ok {
		t.Error("an unknown run has events")
	}
	if _, ok := q.Get("nobody"); ok {
		t.Error("an unknown run has a ticket")
	}
}

// A panic of the lab fails one run, not the playground.
func TestQueueSurvivesAPanic(t *testing.T) {
	q, start := hopeless(t)
	known := q.lab.Bus
	calls := 0
	q.lab.Bus = func(name string) (BusInfo, string, error) {
		if calls++; calls == 2 { // the first is Submit's
			panic("the lab is broken")
		}
		return known(name)
	}
	asked, err := q.Submit(Spec{Chapter: 1, Bus: "nats"})
	if err != nil {
		t.Fatal(err)
	}
	start()
	if ticket, _ := end(t, q, asked.ID); ticket.State != Failed || !strings.Contains(ticket.Error, "the lab is broken") {
		t.Errorf("%+v", ticket)
	}
}

// Only so many are remembered, and of those that are not over none is forgotten.
func TestQueueForgetsTheOldestFinished(t *testing.T) {
	q, _ := hopeless(t)
	waiting, err := q.Submit(Spec{Chapter: 1, Bus: "nats"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range keptTickets + 5 {
		done := &ticket{Ticket: Ticket{ID: newRunID(), State: Done}, change: make(chan struct{})}
		if i%2 == 0 {
			done.State = Failed
		}
		q.tickets = append(q.tickets, done)
	}
	second, newest := q.tickets[1].ID, q.tickets[len(q.tickets)-1].ID
	q.forget()
	if n := len(q.List()); n != keptTickets {
		t.Errorf("%d are remembered, want %d", n, keptTickets)
	}
	if _, ok := q.Get(waiting.ID); !ok {
		t.Error("a run that waits is forgotten")
	}
	if _, ok := q.Get(second); ok {
		t.Error("the oldest finished run is remembered")
	}
	if _, ok := q.Get(newest); !ok {
		t.Error("the newest run is forgotten")
	}
}
