package lab

import (
	"context"
	"fmt"
	"time"

	"outboxplayground/core/audit"
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
		Declared: r.declared(), Predicted: r.spec.prediction(), AsOf: time.Now().UTC(),
		Took: float64(time.Since(r.began).Microseconds()) / 1000,
	}
	if r.spec.Outage > 0 {
		report.Outage = r.spec.Outage.String()
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

func (r *run) declared() string {
	for _, d := range r.variant.Declared {
		if d.Fault == r.fault.Name {
			return d.On(r.spec.Bus)
		}
	}
	return ""
}
