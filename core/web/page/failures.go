package page

import (
	"strings"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
)

// publishClass tells the class of a publish that failed from the text that is stored
// with the row: drivers wrap the errors of core/bus, whose words are then in it. Without
// them, which is also so where a long text was cut off, nobody knows.
func publishClass(text string) bus.Class {
	switch {
	case strings.Contains(text, bus.ErrUnavailable.Error()):
		return bus.Unavailable
	case strings.Contains(text, bus.ErrRejected.Error()):
		return bus.Rejected
	}
	return bus.Ambiguous
}

// handlingClass tells from the reason of a dead letter what kind of failure it was:
// unreadable, panic, database, late, or failed, which says no more than that.
func handlingClass(text string) string {
	switch {
	case strings.HasPrefix(text, inbox.ErrUnreadable.Error()):
		return "unreadable"
	case strings.HasPrefix(text, "panic: "):
		return "panic"
	case strings.Contains(text, "(SQLSTATE "): // as pgconn.PgError ends
		return "database"
	case strings.Contains(text, "context deadline exceeded"):
		return "late"
	}
	return "failed"
}
