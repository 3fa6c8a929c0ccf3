// Package prepared lists and ends prepared transactions: those that have done all
// their work, outlive every crash with their locks, and wait for a word.
package prepared

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/pg"
)

var (
	// ErrUnknown: no transaction of this name is prepared. It was ended, or never was.
	ErrUnknown = errors.New("prepared: there is no prepared transaction of this name")
	// ErrBusy: another session is ending it at this moment.
	ErrBusy = errors.New("prepared: another session is ending this transaction")
	// ErrInDoubt: the transaction may be prepared, and nobody who knows how it shall end
	// will end it. It is also a pg.ErrCommitUnknown: the order may come to exist.
	ErrInDoubt error = doubt{}
)

type doubt struct{}

func (doubt) Error() string { return "prepared: the transaction is left in doubt" }
func (doubt) Unwrap() error { return pg.ErrCommitUnknown }

// The second phase. Neither takes a parameter, nor works inside a transaction.
const (
	commit   = `COMMIT PREPARED `
	rollback = `ROLLBACK PREPARED `
)

// DB is what this package needs of a pool or a connection.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// execer is enough for an end.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Name is the name of an event's transaction. Names are global to the server, hence
// the schema in front. PostgreSQL takes fewer than 200 bytes.
func Name(schema, eventID string) string { return schema + "." + eventID }

// Quote writes a name as a literal, for PREPARE TRANSACTION, which takes no parameter.
func Quote(name string) string { return "'" + strings.ReplaceAll(name, "'", "''") + "'" }

// Commit ends a transaction: what it did has happened.
func Commit(ctx context.Context, db execer, name string) error {
	return end(ctx, db, commit, name)
}

// Rollback ends a transaction: it has never been.
func Rollback(ctx context.Context, db execer, name string) error {
	return end(ctx, db, rollback, name)
}

// end says the word. An error that is none of PostgreSQL's own answers means that
// nobody knows whether it was heard; asking again tells, for a name is ended once.
func end(ctx context.Context, db execer, word, name string) error {
	_, err := db.Exec(ctx, word+Quote(name))
	var said *pgconn.PgError
	if errors.As(err, &said) {
		switch said.Code {
		case "42704": // undefined_object
			return ErrUnknown
		case "55000": // object_not_in_prerequisite_state
			return ErrBusy
		}
	}
	return err
}

// Transaction is a prepared one.
type Transaction struct {
	GID     string    `json:"gid"`
	EventID string    `json:"event_id"` // what the name says after the schema
	Since   time.Time `json:"since"`    // when it was prepared
	AgeMS   int64     `json:"age_ms"`
	// Waiting are the sessions that wait for its end.
	Waiting int `json:"waiting"`
	// Behind is how many transactions have begun since. VACUUM removes nothing that
	// has died after the oldest open one began, in any table.
	Behind int64 `json:"behind"`
}

const list = `
SELECT gid, substr(gid, length($1) + 2), prepared,
  (1000 * extract(epoch FROM clock_timestamp() - prepared))::bigint,
  (SELECT count(*) FROM pg_locks w
   WHERE w.locktype = 'transactionid' AND w.transactionid = p.transaction AND NOT w.granted),
  age(p.transaction)
FROM pg_prepared_xacts p
WHERE database = current_database() AND starts_with(gid, $1 || '.')
ORDER BY prepared, gid`

// List returns the prepared transactions of a schema, the oldest first. One that was
// prepared a moment ago may have a coordinator who is about to end it.
func List(ctx context.Context, db DB, schema string) ([]Transaction, error) {
	rows, err := db.Query(ctx, list, schema)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Transaction])
	for i := range found {
		found[i].Since = found[i].Since.UTC()
	}
	return found, err
}

// Find returns the transaction of an event; ErrUnknown when none is prepared.
func Find(ctx context.Context, db DB, schema, eventID string) (Transaction, error) {
	all, err := List(ctx, db, schema)
	if err != nil {
		return Transaction{}, err
	}
	for _, t := range all {
		if t.EventID == eventID {
			return t, nil
		}
	}
	return Transaction{}, ErrUnknown
}

const maxPrepared = `SELECT current_setting('max_prepared_transactions')::int`

// Room returns how many transactions this server lets be prepared at once. It is 0
// where two-phase commit is off, which is PostgreSQL's default.
func Room(ctx context.Context, db pg.DB) (n int, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, maxPrepared).Scan(&n)
	})
	return n, err
}
