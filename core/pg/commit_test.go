package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What the server has said is certain, and so is a COMMIT that never left; silence
// is not, and neither is a server that says good-bye instead of an answer.
func TestWhatAFailedCommitMeans(t *testing.T) {
	said := func(code string) error { return fmt.Errorf("commit: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		name    string
		err     error
		unsent  bool
		unknown bool
	}{
		{"no error", nil, false, false},
		{"serialization failure", said("40001"), false, false},
		{"deferred constraint", said("23505"), false, false},
		{"aborted before", pgx.ErrTxCommitRollback, false, false},
		{"ended before", pgx.ErrTxClosed, false, false},
		{"never sent", io.ErrUnexpectedEOF, true, false},
		{"backend terminated", said("57P01"), false, true},
		{"server shut down", said("57P02"), false, true},
		{"connection gone", io.ErrUnexpectedEOF, false, true},
		{"deadline", context.DeadlineExceeded, false, true},
	} {
		got := commitError(c.err, c.unsent)
		if errors.Is(got, ErrCommitUnknown) != c.unknown || !errors.Is(got, c.err) {
			t.Errorf("%s: %v; want unknown %v", c.name, got, c.unknown)
		}
	}
}
