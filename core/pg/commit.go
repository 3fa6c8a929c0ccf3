package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrCommitUnknown: COMMIT was sent and no answer came, so the transaction may
// have happened. The only way to know is to look for its rows; sending it again
// blindly is how orders come twice.
var ErrCommitUnknown = errors.New("pg: the answer to COMMIT was lost; the transaction may have been committed")

// DB is what a chapter needs of the database: *pgxpool.Pool has it.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Timed is a DB that measures its transactions, from BEGIN to the end of COMMIT
// or ROLLBACK, or of the statement outside that ends a prepared one, and turns a COMMIT without an answer into ErrCommitUnknown. Use
// one for each request: it is not safe for concurrent transactions.
type Timed struct {
	DB
	began time.Time
	spent time.Duration
}

// Spent returns how long the last transaction took.
func (t *Timed) Spent() time.Duration { return t.spent }

// Begin starts the clock, then the transaction.
func (t *Timed) Begin(ctx context.Context) (pgx.Tx, error) {
	start := time.Now()
	tx, err := t.DB.Begin(ctx)
	if err != nil {
		return nil, err
	}
	t.began = start
	return &timedTx{Tx: tx, owner: t, start: start}, nil
}

// Exec runs a statement outside of a transaction: a transaction of its own, or the
// second phase of the last one. The clock runs from that one's BEGIN.
func (t *Timed) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.began.IsZero() {
		t.began = time.Now()
	}
	defer func() { t.spent = time.Since(t.began) }()
	return t.DB.Exec(ctx, sql, args...)
}

type timedTx struct {
	pgx.Tx
	owner *Timed
	start time.Time
	ended bool
}

// stop reads the clock once: pgx calls Rollback after Commit, harmlessly.
func (t *timedTx) stop() {
	if !t.ended {
		t.ended, t.owner.spent = true, time.Since(t.start)
	}
}

func (t *timedTx) Commit(ctx context.Context) error {
	defer t.stop()
	unsent := ctx.Err() != nil || t.Tx.Conn().IsClosed()
	return commitError(t.Tx.Commit(ctx), unsent)
}

func (t *timedTx) Rollback(ctx context.Context) error {
	defer t.stop()
	return t.Tx.Rollback(ctx)
}

// commitError tells an answer from silence. The server's own refusal, a
// transaction that was aborted before (COMMIT then answers ROLLBACK) and a COMMIT
// that certainly never left are certain; all else is not. pgconn.SafeToRetry is no
// help here: pgx 5.12 also says so of a COMMIT whose reply was lost with its
// connection.
func commitError(err error, unsent bool) error {
	var said *pgconn.PgError
	switch {
	case err == nil, unsent:
		return err
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrTxClosed):
		return err
	case errors.As(err, &said) && !strings.HasPrefix(said.Code, "57P"):
		return err
	}
	return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
}

// isBroken recognises a connection that went away under a statement.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
