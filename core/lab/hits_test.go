package lab

import (
	"context"
	"os"
	"testing"
	"time"

	"outboxplayground/core/checkpoint"
)

// A network fault that touched no connection has not hit, whatever the events did.
func TestANetworkFaultHasToTouchAConnection(t *testing.T) {
	r := &run{journal: newJournal(), hits: func() int { return 3 }}
	if n := r.countHits(t.Context()); n != 3 {
		t.Errorf("a fault of processes: %d hits, want 3", n)
	}
	r.outages = []outageSpan{{}}
	if n := r.countHits(t.Context()); n != 0 {
		t.Errorf("an outage that cut nothing: %d hits", n)
	}
	r.report.Network = 1
	if n := r.countHits(t.Context()); n != 3 {
		t.Errorf("an outage that cut something: %d hits, want 3", n)
	}
	if n := (&run{journal: newJournal()}).countHits(t.Context()); n != 0 {
		t.Errorf("a plot that never got so far: %d hits", n)
	}
}

// Of the events that are affected, those count that came to the step in the outage,
// each once.
func TestHitsOfAnOutage(t *testing.T) {
	begin := time.Now()
	end := begin.Add(time.Second)
	r := &run{journal: newJournal(), ids: []string{"a", "b", "c", "d"}, span: span{2, 4},
		outages: []outageSpan{{begin: begin, end: end}}}
	say := func(id string, step checkpoint.Name, at time.Time) {
		r.journal.add(Line{At: at, Step: string(step), EventID: id})
	}
	say("a", checkpoint.BeforePublish, begin)                   // not affected
	say("b", checkpoint.BeforePublish, begin)                   // a hit
	say("b", checkpoint.BeforePublish, begin.Add(1))            // the same one
	say("c", checkpoint.AfterPublish, begin)                    // another step
	say("c", checkpoint.BeforePublish, begin.Add(-time.Second)) // too early
	say("d", checkpoint.BeforePublish, end)                     // too late
	if n := r.reachedInOutage(checkpoint.BeforePublish)(); n != 1 {
		t.Errorf("%d hits, want 1", n)
	}
}

// An order that was committed has not met an outage of the database.
func TestHitsOfADatabaseThatIsDown(t *testing.T) {
	r := &run{span: span{2, 4}, answers: []string{refused, created, noReply, refused}}
	if n := r.refusedInSpan(); n != 1 {
		t.Errorf("%d hits, want 1", n)
	}
}

// A child that hears nothing any more and lives does not hold the run for ever.
func TestAChildThatIsDeafIsNotWaitedForForEver(t *testing.T) {
	_, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &run{journal: newJournal(), procs: []*process{{in: in, ended: make(chan struct{})}}}
	if err := r.allTold(ctx); err == nil {
		t.Error("all was told, by a child that was not asked")
	}
}
