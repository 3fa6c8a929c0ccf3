package cdc

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	readEnd = `SELECT pg_current_wal_flush_lsn()::text, ` + numberSQL + `::text`

	// Whatever was committed before the end of the log, as read a moment ago, is visible
	// to this statement. What is still open commits behind it. An order without a row may
	// have its event in the log alone, where no statement sees it.
	nothingWaits = `
SELECT count(*) FROM pg_replication_slots s
WHERE s.slot_name = $1 AND NOT s.active AND s.confirmed_flush_lsn < $3::pg_lsn
	AND NOT EXISTS (SELECT FROM outbox o WHERE o.bus = $2 AND o.lsn >= s.confirmed_flush_lsn)
	AND NOT EXISTS (SELECT FROM orders o WHERE o.bus = $2
		AND NOT EXISTS (SELECT FROM outbox x WHERE x.event_id = o.event_id))`

	advance = `SELECT pg_replication_slot_advance($1, $2::pg_lsn)`
)

// Tend moves the slot of a lane to the end of the log if nobody reads from it and nothing
// waits in it, so that the server need not keep its log for a bus that takes no events.
func Tend(ctx context.Context, db DB, l Lane) error {
	ctx, cancel := context.WithTimeout(ctx, statement)
	defer cancel()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var end, number string
		if err := tx.QueryRow(ctx, readEnd).Scan(&end, &number); err != nil {
			return err
		}
		var idle int // read committed: this statement sees what was committed until now
		if err := tx.QueryRow(ctx, nothingWaits, l.slot(number), l.Bus, end).Scan(&idle); err != nil || idle == 0 {
			return err
		}
		_, err := tx.Exec(ctx, advance, l.slot(number), end)
		return err
	})
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == objectInUse {
		return nil // a reader has come
	}
	if err != nil {
		return fmt.Errorf("cdc: %s: %w", l.Name(), err)
	}
	return nil
}
