package lab

import (
	"strings"
	"testing"
	"time"

	"outboxplayground/core/audit"
)

// lostResult is a run that killed the producer after a commit.
func lostResult() Result {
	at := func(ms int, label, step, text string) Line {
		return Line{At: time.UnixMilli(int64(1000 + ms)), Label: label, Step: step, EventID: "e-1", Text: text}
	}
	trail := EventTrail{Order: 1, Trail: audit.Trail{EventID: "e-1", Why: "no email", Verdict: audit.Verdict{Orders: 1, Lost: 1}},
		Timeline: []Line{at(0, "client", "order", ""), at(1, "producer", "after-commit", ""),
			at(2, "consumer", "before-effect", ""), at(300, "producer", sayKilled, "SIGKILL")}}
	r := Report{ID: "r1", Chapter: 1, Variant: "v", Bus: "inmemory", Mode: "memory", Valid: audit.False,
		Faults: []FaultReport{{Name: "crash", FromOrder: 1, ToOrder: 1, Hits: 1}}, Smallest: smallest([]EventTrail{trail})}
	return Result{Report: r, Trails: []EventTrail{trail}}
}

func TestTheVerdictReadsWell(t *testing.T) {
	var out strings.Builder
	if err := lostResult().WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"v · inmemory (memory)\n",
		"crash, order 1, 1 hit\n",
		"last seen: producer killed at after-commit; no email\n",
		"\n  ⋯ 298 ms ⋯\n",
		"\n  t+1.0 ms    producer  after-commit\n", // nothing behind it
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

func TestAFaultThatComesTooLateSaysSo(t *testing.T) {
	f := FaultReport{Name: "broker-down", FromOrder: 13, ToOrder: 10}
	if got, want := f.words(), "broker-down, from order 13 on, after the last, 0 hits"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAReportWithoutItsTrailsSaysWhereTheyAre(t *testing.T) {
	res := lostResult()
	res.Trails = nil
	var out strings.Builder
	if err := res.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	if want := "event e-1: /audit/event/e-1 has its trail\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%q is missing in:\n%s", want, out.String())
	}
}

func TestTheSameRunAgainIsTheSame(t *testing.T) {
	r := &run{lab: &Lab{Chapters: []Chapter{{Number: 1}, {Number: 2}}}, chapter: Chapter{Number: 1}, variant: Variant{Name: "v"},
		fault: Fault{Name: "rollback"}, spec: Spec{Bus: "nats", Orders: 20, Seed: 7, Outage: 3 * time.Second}}
	next := r.next()
	if want := `-d '{"chapter":1,"variant":"v","bus":"nats","fault":"rollback","orders":20,"seed":7,"outage":"3s"}'`; !strings.HasSuffix(next[0].Curl, want) {
		t.Errorf("%s\ndoes not end with %s", next[0].Curl, want)
	}
	if len(next) != 2 || !strings.Contains(next[1].Curl, `{"chapter":2,"bus":"nats"`) {
		t.Errorf("the next chapter: %+v", next)
	}
}
