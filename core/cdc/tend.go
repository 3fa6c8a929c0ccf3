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

	isIdle = `SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active AND confirmed_flush_lsn < $2::pg_lsn`

	// What the slot would deliver up to a position: inserts, and our own messages. Only the
	// log can tell. The table cannot: a row may have been written before the slot's position
	// and committed behind it.
	peek = `
SELECT count(*) FROM pg_logical_slot_peek_binary_changes($1, $2::pg_lsn, NULL,
	'proto_version', '1', 'publication_names', $3, 'messages', 'true')
WHERE get_byte(data, 0) = ascii('I')
	OR get_byte(data, 0) = ascii('M') AND position(convert_to($4, 'UTF8') IN data) > 0`

	advance = `SELECT pg_replication_slot_advance($1, $2::pg_lsn)`
)

// Tend moves the slot of a lane to the end of the log if nobody reads from it and nothing
// waits in it, so that the server need not keep its log for a bus that takes no events.
func Tend(ctx context.Context, db DB, l Lane) error {
	ctx, cancel := context.WithTimeout(ctx, statement)
	defer cancel()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return l.tend(ctx, tx) })
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == objectInUse {
		return nil // a reader has come
	}
	if err != nil {
		return fmt.Errorf("cdc: %s: %w", l.Name(), err)
	}
	return nil
}

func (l Lane) tend(ctx context.Context, tx pgx.Tx) error {
	var end, number string
	if err := tx.QueryRow(ctx, readEnd).Scan(&end, &number); err != nil {
		return err
	}
	var idle, waiting int
	if err := tx.QueryRow(ctx, isIdle, l.slot(number), end).Scan(&idle); err != nil || idle == 0 {
		return err
	}
	if err := tx.QueryRow(ctx, peek, l.slot(number), end, l.Name(), l.Prefix()).Scan(&waiting); err != nil || waiting > 0 {
		return err
	}
	_, err := tx.Exec(ctx, advance, l.slot(number), end)
	return err
}
