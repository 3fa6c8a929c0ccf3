package main

import (
	"encoding/json"
	"strings"
	"testing"

	"outboxplayground/core/lab"
)

// The race as a command: the naive side loses what the outage covers, the outbox
// nothing, stdout is one object, and both sides' reports are kept.
func TestRaceCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	stdout, stderr, code := b.command(t, "race", "--bus", "nats", "--count", "20", "--json")
	if code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	var r lab.RaceResult
	dec := json.NewDecoder(strings.NewReader(stdout))
	if err := dec.Decode(&r); err != nil || dec.More() {
		t.Fatalf("stdout is not one object (%v):\n%s", err, stdout)
	}
	if r.Bus != "nats" || r.Count != 20 || !r.Conclusive || r.Outage.FromOrder != 13 || r.Outage.Hits == 0 {
		t.Errorf("%+v, want 20 orders on nats and an outage from order 13", r)
	}
	if n := r.Naive; n.Chapter != raceNaive || n.Delivered != 12 || n.Lost != 8 || n.Stuck+n.Pending+n.Duplicated > 0 {
		t.Errorf("naive: %+v, want 12 delivered and 8 lost", n)
	}
	if o := r.Outbox; o.Chapter != raceOutbox || o.Delivered != 20 || o.Lost+o.Stuck+o.Pending > 0 {
		t.Errorf("outbox: %+v, want all 20 delivered", o)
	}
	for _, side := range []lab.RaceSide{r.Naive, r.Outbox} {
		if kept := b.load(t, side.Run); kept.Report.Measured.Lost != side.Lost || len(kept.Trails) != 20 {
			t.Errorf("run %s is kept with %d lost and %d trails", side.Run, kept.Report.Measured.Lost, len(kept.Trails))
		}
	}
	for _, word := range []string{"naive running", "outbox running", "of 20 orders"} {
		if !strings.Contains(stderr, word) {
			t.Errorf("no %q in the progress:\n%s", word, stderr)
		}
	}
	b.nothingLeft(t)
}

// A race without an outage proves nothing, and says so with exit code 2.
func TestRaceCommandProvesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	for name, args := range map[string][]string{
		"in memory":                    {"--bus", "inmemory", "--count", "5"},
		"over before the outage began": {"--bus", "nats", "--count", "5"},
	} {
		stdout, stderr, code := b.command(t, append([]string{"race"}, args...)...)
		for _, word := range []string{"naive (chapter 1)", "outbox (chapter", "proves nothing", "conclusive"} {
			if !strings.Contains(stdout, word) {
				t.Errorf("%s: no %q in\n%s", name, word, stdout)
			}
		}
		if code != exitUnknown {
			t.Errorf("%s: exit code %d, want %d\n%s", name, code, exitUnknown, stderr)
		}
	}
	b.nothingLeft(t)
}

func TestRaceCommandRefuses(t *testing.T) {
	b := newBench(t, "nats")
	for want, args := range map[string][]string{
		"1 to 1000":   {"--bus", "nats", "--count", "1001"},
		"no such bus": {"--bus", "pigeon"},
	} {
		stdout, stderr, code := b.command(t, append([]string{"race", "--json"}, args...)...)
		if code != exitCouldNotRun || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("race %v: exit code %d, stdout %q, stderr %q; want 3, nothing, and %q", args, code, stdout, stderr, want)
		}
	}
}
