package picture

import (
	"outboxplayground/core/lab"
)

// Fate is what became of one order of a run, in the audit's word: lost, phantom,
// duplicated, stuck, pending, delivered or refused; "unknown" where nothing can be told.
func Fate(e lab.EventTrail) string {
	v := e.Trail.Verdict
	for _, f := range []struct {
		n    int
		word string
	}{{v.Lost, "lost"}, {v.Phantom, "phantom"}, {v.Duplicated, "duplicated"}, {v.Stuck, "stuck"},
		{v.Pending, "pending"}, {v.Delivered, "delivered"}} {
		if f.n > 0 {
			return f.word
		}
	}
	if e.Trail.Order == nil {
		return "refused" // no row anywhere: nothing was kept, nothing was sent
	}
	return "unknown"
}

// Fates lists the words of Fate in the order of a run's legend.
func Fates() []string {
	return []string{"delivered", "lost", "duplicated", "phantom", "stuck", "refused", "pending", "unknown"}
}

// shape draws the sign of a fate in a square of 16 by 16: not the glyph, which a font may
// lack, but the same form.
func shape(fate string) string {
	switch fate {
	case "delivered":
		return "M3 8.5l3.2 3.5L13 4.5"
	case "lost":
		return "M4 4l8 8M12 4l-8 8"
	case "duplicated":
		return "M3 6h7v7H3zM6 6V3h7v7h-3"
	case "phantom":
		return "M8 2.5L14 13.5H2zM8 6.5v3M8 11.3v.9"
	case "stuck":
		return "M5 3h6v10H5zM6.5 3v10M8 3v10M9.5 3v10"
	case "refused":
		return "M3.5 8h9"
	case "pending":
		return "M3 8h1.5M7.2 8h1.6M11.5 8H13"
	}
	return "M5.5 6a2.5 2.5 0 1 1 3.5 2.3q-1 .5-1 1.7M8 12.2v.9"
}
