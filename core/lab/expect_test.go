package lab

import (
	"strings"
	"testing"

	"outboxplayground/core/audit"
)

func TestAgrees(t *testing.T) {
	v := func(change func(*audit.Verdict)) audit.Verdict {
		healthy := audit.Verdict{Orders: 47, Delivered: 47}
		change(&healthy)
		return healthy
	}
	healthy := v(func(*audit.Verdict) {})
	lost := func(n int) audit.Verdict { return v(func(v *audit.Verdict) { v.Lost = n }) }
	refused := v(func(v *audit.Verdict) { v.Refused = 8 })
	for _, c := range []struct {
		declared string
		measured audit.Verdict
		late     int
		differs  string // part of the answer; "" is agreement
	}{
		{"ok", healthy, 0, ""},
		{"ok", healthy, 5, ""},
		{"ok", lost(1), 0, "1 lost, none declared"},
		{"ok", refused, 0, ""}, // a refusal is honest: it compares only where it is named
		{"ok", v(func(v *audit.Verdict) { v.Duplicated = 2 }), 0, "2 duplicated"},
		{"ok", v(func(v *audit.Verdict) { v.Phantom = 1 }), 0, "1 phantom"},
		{"ok", v(func(v *audit.Verdict) { v.Reordered = 1 }), 0, "1 reordered"},
		{"ok", v(func(v *audit.Verdict) { v.Stuck = 1 }), 0, "1 stuck"},
		{"ok", v(func(v *audit.Verdict) { v.Pending = 1 }), 0, "1 pending"},
		{"lost 35", lost(35), 0, ""},
		{"lost 35", lost(34), 0, "declared lost 35, measured 34"},
		{"lost 35", healthy, 0, "declared lost 35, measured 0"},
		{"lost", lost(1), 0, ""},
		{"lost", lost(9), 0, ""},
		{"lost", healthy, 0, "declared lost, measured none"},
		{"lost", v(func(v *audit.Verdict) { v.Lost, v.Duplicated = 1, 1 }), 0, "1 duplicated, none declared"},
		{"lost 1, duplicated", v(func(v *audit.Verdict) { v.Lost, v.Duplicated = 1, 1 }), 0, ""},
		{"late", healthy, 1, ""},
		{"late", healthy, 0, "nothing was delivered after the outage"},
		{"late", lost(1), 1, "1 lost"},
		{"refused 8", refused, 0, ""},
		{"refused 7", refused, 0, "declared refused 7, measured 8"},
		{"refused", healthy, 0, "declared refused, measured none"},
		{"refused 8", v(func(v *audit.Verdict) { v.Refused, v.Lost = 8, 1 }), 0, "1 lost"},
		{"n/a", healthy, 0, "declared n/a, but it was measured"},
		{"", healthy, 0, "cannot be read"},
		{"lost many", lost(1), 0, "cannot be read"},
		{"lost 1 2", lost(1), 0, "cannot be read"},
		{"delayed", healthy, 0, "means nothing"},
		{"duplicate", v(func(v *audit.Verdict) { v.Duplicated = 1 }), 0, "means nothing"},
	} {
		r := Report{Valid: c.measured.Valid(), Measured: c.measured, Late: c.late}
		if c.measured.Pending > 0 {
			r.Valid = audit.False // the comparison of pending itself
		}
		got := Agrees(c.declared, r)
		if (c.differs == "") != (got == "") || !strings.Contains(got, c.differs) {
			t.Errorf("declared %q, measured %+v, %d late: %q, want %q", c.declared, c.measured, c.late, got, c.differs)
		}
	}
}

// What is not known agrees with nothing.
func TestUnknownAgreesWithNothing(t *testing.T) {
	for _, declared := range []string{"ok", "late", "lost", "lost 35", "n/a"} {
		r := Report{Valid: audit.Unknown, Why: "the fault hit nothing", Measured: audit.Verdict{Orders: 47, Lost: 35}}
		if got := Agrees(declared, r); !strings.Contains(got, "the fault hit nothing") {
			t.Errorf("%s: %q", declared, got)
		}
	}
}
