package lab_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/lab"
)

// noDatabase fails the test when it is asked.
type noDatabase struct{ t *testing.T }

func (d noDatabase) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	d.t.Errorf("the database was asked for %q", args)
	return nil, errors.New("no database")
}

// An id that Postgres cannot take as text is the id of no run, not a failure inside.
func TestAnIDThatIsNoTextIsNoRun(t *testing.T) {
	for _, id := range []string{"\x00", "a\x00b", "\xff", "\xc3("} {
		if _, err := lab.Load(t.Context(), noDatabase{t}, id); !errors.Is(err, lab.ErrNoRun) {
			t.Errorf("%q: %v, want %v", id, err, lab.ErrNoRun)
		}
	}
}
