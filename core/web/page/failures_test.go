package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
)

// What is told from a stored text is what the error itself would have told.
func TestTheClassIsToldFromTheText(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("kafka: %w: %w", bus.ErrUnavailable, io.EOF), fmt.Errorf("redis: bus closed: %w", bus.ErrUnavailable),
		fmt.Errorf("redis: 9 bytes exceed the limit of 1: %w", bus.ErrRejected), fmt.Errorf("%w: nats: too large", bus.ErrRejected),
		fmt.Errorf("%w: %w", bus.ErrRejected, bus.ErrUnavailable), io.ErrUnexpectedEOF, errors.New("rejected"), context.DeadlineExceeded,
	} {
		if got, want := publishClass(err.Error()), bus.Classify(err); got != want {
			t.Errorf("%v is %v, and its text is %v", err, want, got)
		}
	}
	for want, err := range map[string]error{
		"unreadable": fmt.Errorf("%w: %w", inbox.ErrUnreadable, io.ErrUnexpectedEOF), "panic": errors.New("panic: runtime error"),
		"database": fmt.Errorf("email: %w", &pgconn.PgError{Severity: "ERROR", Code: "23514", Message: "check"}),
		"late":     fmt.Errorf("email: %w", context.DeadlineExceeded), "failed": errors.New("no such address"),
	} {
		if got := handlingClass(err.Error()); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

func TestEveryClassHasWords(t *testing.T) {
	p := made(t)
	for _, key := range []string{"publish.unavailable", "publish.rejected", "publish.ambiguous",
		"handling.unreadable", "handling.panic", "handling.database", "handling.late", "handling.failed"} {
		if _, ok := p.words["failure."+key]; !ok {
			t.Errorf("no words for %s", key)
		}
	}
}
