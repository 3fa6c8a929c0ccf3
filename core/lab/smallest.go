package lab

import (
	"strings"

	"outboxplayground/core/audit"
	"outboxplayground/core/checkpoint"
)

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
