package lab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/checkpoint"
)

// judge reads the tables and says what happened.
func (r *run) judge(ctx context.Context) (Result, error) {
	source := r.chapter.Source(r.pool)
	v, err := audit.Tally(ctx, source, r.over)
	if err != nil {
		return Result{}, err
	}
	trails, err := audit.Trails(ctx, source, r.over)
	if err != nil {
		return Result{}, err
	}
	events := r.eventTrails(trails)
	doubt := r.contradiction(v, trails)
	for _, e := range events {
		if e.Answer == refused && e.Trail.Order == nil {
			v.Refused++
		}
	}
	report := Report{
		ID: r.id, Chapter: r.chapter.Number, Variant: r.variant.Name, Bus: r.spec.Bus,
		Mode: r.info.Mode, Version: r.info.Version, Seed: r.spec.Seed, Standard: r.spec.standard() && r.shared == nil,
		Measured: v, Late: r.late(events), Faults: []FaultReport{r.report}, Broken: r.stretches(),
		Declared: r.declared(), AsOf: time.Now().UTC(),
		Took: float64(time.Since(r.began).Microseconds()) / 1000,
	}
	if r.spec.Predicted != nil {
		report.Predicted = map[string]int{"delivered": *r.spec.Predicted}
	}
	report.Valid, report.Why = r.verdict(v, doubt)
	report.Not, report.AlsoNot = Broken(v)
	report.Smallest = smallest(events)
	report.Next = r.next()
	return Result{Report: report, Trails: events}, nil
}

// verdict: an audit in doubt of itself proves nothing, nor does a fault that did not
// hit or a run that was not over.
func (r *run) verdict(v audit.Verdict, doubt string) (audit.Validity, string) {
	died := r.unplannedDeath()
	switch {
	case doubt != "":
		return audit.Unknown, doubt
	case died != nil:
		return audit.Unknown, died.Error() + ", so this run proves nothing"
	case r.fault.Name != "none" && r.report.Hits == 0:
		return audit.Unknown, "the fault hit nothing, so this run proves nothing"
	case !r.over:
		return audit.Unknown, "the run was not over at its deadline"
	}
	return v.Valid(), "counted in the tables after the last event had come to rest"
}

// contradiction compares the two ways of counting, one query over all tables and the
// sum of the single trails. An audit that overlooks something in one of them is not
// believed. While things still move the two readings may differ.
func (r *run) contradiction(v audit.Verdict, trails map[string]audit.Trail) string {
	var sum audit.Verdict
	for _, t := range trails {
		sum.Orders += t.Verdict.Orders
		sum.Delivered += t.Verdict.Delivered
		sum.Lost += t.Verdict.Lost
		sum.Duplicated += t.Verdict.Duplicated
		sum.Phantom += t.Verdict.Phantom
		sum.Stuck += t.Verdict.Stuck
		sum.Pending += t.Verdict.Pending
	}
	if !r.over || v == sum {
		return ""
	}
	return fmt.Sprintf("the audit contradicts itself: counted together %+v, one by one %+v", v, sum)
}

// Broken names the guarantees that a verdict disproves, and what that implies.
func Broken(v audit.Verdict) (not, alsoNot []string) {
	add := func(n int, name string, implied ...string) {
		if n > 0 {
			not = append(not, name)
			alsoNot = append(alsoNot, implied...)
		}
	}
	add(v.Lost, "no-loss", "at-least-once")
	add(v.Duplicated, "no-duplicates", "at-most-once")
	add(v.Phantom, "no-phantoms")
	add(v.Reordered, "order-per-key")
	add(v.Stuck, "heals-by-itself")
	if len(not) > 0 && v.Lost+v.Duplicated+v.Phantom > 0 {
		alsoNot = append(alsoNot, "effectively-once")
	}
	return not, alsoNot
}

// eventTrails joins the tables, the clients' answers and the journal, in the order
// of the run.
func (r *run) eventTrails(trails map[string]audit.Trail) []EventTrail {
	lines := map[string][]Line{}
	for _, l := range r.journal.all() {
		if l.EventID != "" && l.Step != sayArmed {
			lines[l.EventID] = append(lines[l.EventID], l)
		}
	}
	events := make([]EventTrail, 0, len(r.ids))
	for i, id := range r.ids {
		t, ok := trails[id]
		if !ok {
			t = audit.None(r.chapter.Number, r.spec.Bus, id)
		}
		if t.Bus == "" {
			t.Bus = r.spec.Bus // in doubt: no row that names it can be read
		}
		events = append(events, EventTrail{Order: i + 1, Answer: r.answers[i], Trail: t, Timeline: lines[id]})
	}
	return events
}

// late counts the affected events that were delivered after the outage had ended.
func (r *run) late(events []EventTrail) (n int) {
	if len(r.outages) == 0 || r.outages[0].end.IsZero() {
		return 0
	}
	end := r.outages[0].end
	for _, e := range events {
		affected := e.Order >= r.span.from && e.Order <= r.span.to
		if affected && len(e.Trail.Emails) > 0 && e.Trail.Emails[0].SentAt.After(end) {
			n++
		}
	}
	return n
}

// smallest picks one event that shows what is wrong: the worst kind, the earliest.
func smallest(events []EventTrail) *Smallest {
	kinds := []struct {
		what string
		of   func(audit.Verdict) int
	}{
		{"lost", func(v audit.Verdict) int { return v.Lost }},
		{"phantom", func(v audit.Verdict) int { return v.Phantom }},
		{"duplicated", func(v audit.Verdict) int { return v.Duplicated }},
		{"stuck", func(v audit.Verdict) int { return v.Stuck }},
	}
	for _, k := range kinds {
		for _, e := range events {
			if k.of(e.Trail.Verdict) > 0 {
				return &Smallest{EventID: e.Trail.EventID, Order: e.Order, What: k.what,
					Why: because(e), Trail: "/audit/event/" + e.Trail.EventID}
			}
		}
	}
	return nil
}

// because says what is known of the cause: what a publish answered, or the last
// step that the event reached in a process that was killed there.
func because(e EventTrail) string {
	var failures []string
	committed, last, steps := false, "", map[string]string{}
	for _, l := range e.Timeline {
		switch l.Step {
		case sayFailed:
			when := "before COMMIT"
			if committed {
				when = "after COMMIT"
			}
			failures = append(failures, "publish: "+l.Text+", "+when)
		case string(checkpoint.AfterCommit):
			committed = true
		}
		switch {
		case l.Step == sayKilled:
			last = l.Label + " killed at " + steps[l.Label]
		case l.Label != "client":
			last, steps[l.Label] = l.Label+" at "+l.Step, l.Step
		}
	}
	why := e.Trail.Why
	switch {
	case len(failures) > 0:
		why = failures[len(failures)-1] + "; " + why
	case last != "":
		why = "last seen: " + last + "; " + why
	}
	return strings.TrimSpace(why)
}

func (r *run) declared() string {
	for _, d := range r.variant.Declared {
		if d.Fault == r.fault.Name {
			return d.On(r.spec.Bus)
		}
	}
	return ""
}
