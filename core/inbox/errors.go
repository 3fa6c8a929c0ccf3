package inbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrUnreadable is what an effect returns (wrapped) for a message that no further
// attempt can read. The message is a dead letter at once.
var ErrUnreadable = errors.New("inbox: the message cannot be read")

// Why a dead letter cannot be replayed.
var (
	ErrUnknown = errors.New("inbox: there is no such dead letter")
	ErrNotDead = errors.New("inbox: the dead letter was replayed already, or its replay is under way")
)

// failure is an error that speaks against the message, as opposed to one of the
// database: it spends an attempt.
type failure struct{ cause error }

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// blame decides whether an error of the effect or of its commit is the message's
// fault. A connection that broke under the statement is not; one that the attempt's
// own timeout closed is.
func blame(ctx context.Context, tx pgx.Tx, err error) error {
	late := ctx.Err() != nil
	if !late && (away(err) || tx.Conn().IsClosed()) {
		return err
	}
	return &failure{err}
}

// blameCommit judges what COMMIT said. A refusal (a deferred constraint, or an effect
// that hid a failed statement) is the message's; silence says nothing, and the next
// delivery will find out whether the row is there.
func blameCommit(err error) error {
	var said *pgconn.PgError
	refused := errors.As(err, &said) && !away(err)
	if refused || errors.Is(err, pgx.ErrTxCommitRollback) {
		return &failure{err}
	}
	return err
}

// away tells whether the database could not be reached or broke off, as opposed to
// having refused a statement. 08 connection, 57P operator intervention, 53 resources.
func away(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return strings.HasPrefix(said.Code, "08") || strings.HasPrefix(said.Code, "57P") ||
			strings.HasPrefix(said.Code, "53")
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// guarded runs an effect and turns a panic into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// legible makes text fit for a TEXT column, which takes neither NUL nor broken
// UTF-8, and short enough to read in a list.
func legible(text string, most int) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "?")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return text
}
