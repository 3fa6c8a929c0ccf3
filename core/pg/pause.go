package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A claim takes the lock shared, a switch takes it exclusively: when Pause has
// answered, every claim that had not seen the flag is over. Advisory, because a
// row lock would write a tuple at every poll.
const (
	claimLock  = `SELECT pg_advisory_xact_lock_shared(hashtext('outbox-playground pause'), hashtext($1))`
	switchLock = `SELECT pg_advisory_xact_lock(hashtext('outbox-playground pause'), hashtext($1))`
	readPause  = `SELECT paused FROM playground.pauses WHERE schema_name = $1`
	writePause = `INSERT INTO playground.pauses (schema_name, paused) VALUES ($1, $2)
		ON CONFLICT (schema_name) DO UPDATE SET paused = excluded.paused, changed_at = clock_timestamp()`
)

// Pause switches claiming off or on for every worker of a schema, on every
// machine. After it has returned with paused true, nothing is claimed.
func Pause(ctx context.Context, db DB, schema string, paused bool) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, switchLock, schema); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, writePause, schema, paused)
		return err
	})
}

// Gate returns the question a worker asks inside its claim's own transaction:
// may rows of this schema be claimed now?
func Gate(schema string) func(ctx context.Context, tx pgx.Tx) (bool, error) {
	return func(ctx context.Context, tx pgx.Tx) (bool, error) {
		both := &pgx.Batch{} // one round trip, two snapshots: the flag is read with the lock in hand
		both.Queue(claimLock, schema)
		paused := false // no row
		both.Queue(readPause, schema).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&paused}, func() error { return nil })
			return err
		})
		err := tx.SendBatch(ctx, both).Close()
		return !paused && err == nil, err
	}
}
