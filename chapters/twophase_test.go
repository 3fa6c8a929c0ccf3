package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	measure "outboxplayground/core/bench"
	"outboxplayground/core/lab"
	"outboxplayground/infra/servers/servertest"
)

// inDoubt counts the transactions of this bench's runs that stand prepared for longer
// than an order takes.
func (b *bench) inDoubt(t *testing.T) int {
	t.Helper()
	return b.count(t, `SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'run\_%'
		AND prepared < clock_timestamp() - interval '500 ms'`)
}

// SIGKILL of a run whose coordinator was killed before: the transaction outlives both,
// with its locks in the schema that the sweep has to drop. While the run lives, no
// sweep touches it.
func TestAKilledRunLeavesNothingInDoubt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	p := startCommand(t, b.env(), "run", "9", "--bus", "nats", "--fault", "crash-after-publish", "--orders", "2000")
	eventually(t, time.Minute, "an order in doubt", func() bool { return b.inDoubt(t) == 1 })
	if err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.inDoubt(t); n != 1 {
		t.Errorf("%d in doubt after a sweep beside a living run, want 1", n)
	}
	children := descendants(t, p.cmd.Process.Pid, childCommandName)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	eventually(t, 10*time.Second, "the children to end", func() bool { return len(living(t, children)) == 0 })
	if b.inDoubt(t) == 0 { // the coordinator may have died between PREPARE and COMMIT of one more
		t.Error("nothing was left to sweep: this test proves nothing")
	}
	eventually(t, 20*time.Second, "the sweep", func() bool { // the database notices the death a moment later
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(b.schemas(t)) == 0
	})
	b.nothingLeft(t)
}

// A run that ends by itself leaves nothing either, and the trail says what stood there.
func TestARunEndsWhatItLeftInDoubt(t *testing.T) {
	b := newBench(t, "nats")
	res := b.run(t, lab.Spec{Chapter: 9, Bus: "nats", Fault: "crash-after-publish"})
	trail := smallest(t, res, 13, "phantom").Trail
	if trail.InDoubt == nil || trail.Order != nil || len(trail.Emails) != 1 || !strings.Contains(trail.Why, "until a person commits it") {
		t.Errorf("in doubt %+v, order %+v, %d emails: %s", trail.InDoubt, trail.Order, len(trail.Emails), trail.Why)
	}
	b.nothingLeft(t)
}

// With a log the restarted coordinator sends again, and the listener absorbs it.
func TestARecoveringCoordinatorNeedsNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	res := b.run(t, lab.Spec{Chapter: 9, Variant: "recovering", Bus: "nats", Fault: "crash-after-publish"})
	allDelivered(t, res)
	sent := 0
	for _, l := range res.Trails[12].Timeline {
		if l.Label == lab.Producing && l.Step == "after-publish" {
			sent++
		}
	}
	if sent != 2 {
		t.Errorf("event 13 was sent %d times, want twice", sent)
	}
	b.nothingLeft(t)
}

func TestBenchTwoPhaseReports(t *testing.T) {
	servertest.URL(t, "postgres")
	var out bytes.Buffer
	o := producerOptions{benchOptions: benchOptions{Config: measure.Config{Bus: inMemory, Rows: 20}, json: true}, clients: []int{2}}
	if err := benchTwoPhase(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	var ways []string
	for _, one := range objects(t, out.String()) {
		ways = append(ways, one["way"].(string))
		if one["orders_per_s"].(float64) <= 0 || one["slower"].(float64) <= 0 || one["p99_ms"].(float64) <= 0 || one["rounds"] != 3.0 || one["rows"] != 20.0 {
			t.Errorf("%v", one)
		}
	}
	if !slices.Contains(ways, "9 two-phase") || ways[0] != "3 outbox" {
		t.Errorf("ways %v", ways)
	}
}
