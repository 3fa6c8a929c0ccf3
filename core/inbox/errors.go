package inbox

import (
	"context"
	"errors"
	"fmt"
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

// blame decides whether an effect's error is the message's fault. Only the
// transaction's own connection speaks for the database: the error may come from
// anywhere (io.EOF from a decoder of an empty body, a refused connection or a 57P03
// from another server). pgx closes the connection that broke, and that of a FATAL
// error; it also closes one whose statement a timeout ended, which is the effect's.
func blame(ctx context.Context, tx pgx.Tx, err error) error {
	late := ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	var said *pgconn.PgError
	late = late || errors.As(err, &said) && dawdled(said)
	if !late && tx.Conn().IsClosed() {
		return err
	}
	return &failure{err}
}

// blameCommit judges what COMMIT said. A refusal (a deferred constraint, or an effect
// that hid a failed statement) is the message's; silence says nothing, and the next
// delivery will find out whether the row is there.
func blameCommit(err error) error {
	var said *pgconn.PgError
	if errors.As(err, &said) && !fatal(said) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return &failure{err}
	}
	return err
}

// fatal tells whether the server ended the session, as opposed to having refused a
// statement, whatever the code: a trigger may raise 08001 because of another server.
func fatal(said *pgconn.PgError) bool {
	ended := said.SeverityUnlocalized == "FATAL" || said.SeverityUnlocalized == "PANIC"
	return ended && !dawdled(said)
}

// dawdled tells whether the server ended the session because the transaction took too
// long, which the next one may do again: idle_in_transaction_session_timeout (25P03)
// and, from PostgreSQL 17 on, transaction_timeout (25P04).
func dawdled(said *pgconn.PgError) bool { return said.Code == "25P03" || said.Code == "25P04" }

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
