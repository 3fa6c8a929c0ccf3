package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/checkpoint"
)

func TestBroken(t *testing.T) {
	for _, c := range []struct {
		verdict      audit.Verdict
		not, alsoNot string
	}{
		{audit.Verdict{Orders: 47, Delivered: 47, Refused: 3}, "", ""},
		{audit.Verdict{Lost: 1}, "no-loss", "at-least-once effectively-once"},
		{audit.Verdict{Duplicated: 1}, "no-duplicates", "at-most-once effectively-once"},
		{audit.Verdict{Phantom: 1}, "no-phantoms", "effectively-once"},
		{audit.Verdict{Reordered: 1}, "order-per-key", ""},
		{audit.Verdict{Stuck: 1}, "heals-by-itself", ""},
		{audit.Verdict{Lost: 1, Duplicated: 1, Stuck: 1}, "no-loss no-duplicates heals-by-itself", "at-least-once at-most-once effectively-once"},
	} {
		not, alsoNot := Broken(c.verdict)
		if strings.Join(not, " ") != c.not || strings.Join(alsoNot, " ") != c.alsoNot {
			t.Errorf("%+v breaks %v, hence %v; want %q, hence %q", c.verdict, not, alsoNot, c.not, c.alsoNot)
		}
	}
}

// The worst kind comes first, and of a kind the earliest order.
func TestSmallest(t *testing.T) {
	event := func(order int, v audit.Verdict) EventTrail {
		return EventTrail{Order: order, Trail: audit.Trail{EventID: string(rune('a' + order)), Verdict: v}}
	}
	events := []EventTrail{
		event(1, audit.Verdict{Orders: 1, Delivered: 1}),
		event(2, audit.Verdict{Stuck: 1}),
		event(3, audit.Verdict{Duplicated: 1}),
		event(4, audit.Verdict{Phantom: 1}),
		event(5, audit.Verdict{Lost: 1}),
		event(6, audit.Verdict{Lost: 1}),
	}
	for _, want := range []struct {
		what  string
		order int
	}{{"lost", 5}, {"lost", 6}, {"phantom", 4}, {"duplicated", 3}, {"stuck", 2}} {
		got := smallest(events)
		if got == nil || got.What != want.what || got.Order != want.order || got.EventID != string(rune('a'+want.order)) {
			t.Fatalf("the smallest is %+v, want %+v", got, want)
		}
		events = slices.DeleteFunc(events, func(e EventTrail) bool { return e.Order == want.order })
	}
	if got := smallest(events); got != nil {
		t.Errorf("the smallest of nothing bad is %+v", got)
	}
}

func TestVerdictNeedsAHitAndAnEnd(t *testing.T) {
	healthy, bad := audit.Verdict{Orders: 1, Delivered: 1}, audit.Verdict{Orders: 1, Lost: 1}
	for _, c := range []struct {
		fault string
		hits  int
		over  bool
		v     audit.Verdict
		want  audit.Validity
	}{
		{"none", 0, true, healthy, audit.True},
		{"none", 0, false, healthy, audit.Unknown},
		{"rollback", 1, true, healthy, audit.True},
		{"rollback", 1, true, bad, audit.False},
		{"rollback", 0, true, healthy, audit.Unknown},
		{"rollback", 0, true, bad, audit.Unknown},
		{"rollback", 1, false, bad, audit.Unknown},
	} {
		r := &run{over: c.over, report: FaultReport{Hits: c.hits}}
		r.fault.Name = c.fault
		if got, why := r.verdict(c.v, ""); got != c.want || why == "" {
			t.Errorf("%+v: %s (%s)", c, got, why)
		}
		if got, why := r.verdict(c.v, "it contradicts itself"); got != audit.Unknown || why != "it contradicts itself" {
			t.Errorf("%+v, of an audit in doubt: %s (%s)", c, got, why)
		}
	}
}

// An audit that overlooks something in one of its two ways is not believed.
func TestContradiction(t *testing.T) {
	trails := map[string]audit.Trail{
		"a": {Verdict: audit.Verdict{Orders: 1, Delivered: 1}},
		"b": {Verdict: audit.Verdict{Orders: 1, Lost: 1}},
		"c": {Verdict: audit.Verdict{Phantom: 1, Duplicated: 1}},
	}
	together := audit.Verdict{Orders: 2, Delivered: 1, Lost: 1, Phantom: 1, Duplicated: 1}
	r := &run{over: true}
	if doubt := r.contradiction(together, trails); doubt != "" {
		t.Error(doubt)
	}
	together.Lost, together.Delivered = 0, 2
	if doubt := r.contradiction(together, trails); !strings.Contains(doubt, "contradicts itself") {
		t.Errorf("not noticed: %q", doubt)
	}
	r.over = false
	if doubt := r.contradiction(together, trails); doubt != "" {
		t.Errorf("while things move: %s", doubt)
	}
}

func TestBecauseNamesTheCause(t *testing.T) {
	at := time.Now()
	line := func(label, step, text string) Line { return Line{At: at, Label: label, Step: step, Text: text} }
	for _, c := range []struct {
		lines []Line
		want  string
	}{
		{[]Line{line("producer", string(checkpoint.AfterCommit), ""), line("producer", sayFailed, "unavailable: x")}, "publish: unavailable: x, after COMMIT; told"},
		{[]Line{line("producer", sayFailed, "ambiguous: y")}, "publish: ambiguous: y, before COMMIT; told"},
		{[]Line{line("relay", string(checkpoint.AfterMark), ""), line("client", sayAnswer, "201")}, "last seen: relay at after-mark; told"},
		{nil, "told"},
	} {
		if got := because(EventTrail{Timeline: c.lines, Trail: audit.Trail{Why: "told"}}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// late counts affected events that came after the outage's end.
func TestLate(t *testing.T) {
	end := time.Now()
	r := &run{span: span{2, 3}}
	email := func(order int, at time.Time) EventTrail {
		return EventTrail{Order: order, Trail: audit.Trail{Emails: []audit.Email{{SentAt: at}}}}
	}
	events := []EventTrail{email(1, end.Add(time.Second)), email(2, end.Add(time.Second)), email(3, end.Add(-time.Second)), email(4, end.Add(time.Second)), {Order: 2}}
	if n := r.late(events); n != 0 {
		t.Errorf("%d late without an outage", n)
	}
	r.outages = []outageSpan{{end: end}}
	if n := r.late(events); n != 1 {
		t.Errorf("%d late, want 1", n)
	}
}
