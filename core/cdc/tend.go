package cdc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// How far to go, of a slot that nobody reads: to the end of the log, or a step. No row
	// where there is no way to go.
	nextStep = `
SELECT slot_name::text, least(pg_current_wal_flush_lsn(), confirmed_flush_lsn + $2::numeric)::text
FROM pg_replication_slots
WHERE slot_name = $1 || '_' || ` + numberSQL + ` AND NOT active AND confirmed_flush_lsn < pg_current_wal_flush_lsn()`

	// What the slot would deliver up to a position, and the relations that are needed to
	// read it. Only the log can tell. The table cannot: a row may have been written before
	// the slot's position and committed behind it.
	peek = `
SELECT data FROM pg_logical_slot_peek_binary_changes($1, $2::pg_lsn, NULL,
	'proto_version', '1', 'publication_names', $3, 'messages', 'true')
WHERE get_byte(data, 0) IN (ascii('R'), ascii('I'))
	OR get_byte(data, 0) = ascii('M') AND position(convert_to($4, 'UTF8') IN data) > 0`

	// A person's retry is in the log of every lane. That of a row which is not pending on
	// this bus is nothing that waits: a relay would find no row either.
	// The lock is for a retry whose COMMIT is in the log and not visible yet.
	retriedHere = `SELECT status FROM outbox WHERE id = ANY ($1) AND bus = $2 FOR SHARE`

	// The server has to stop by itself: it does not notice that a client has gone, and keeps
	// the slot busy meanwhile.
	boundTend = `SELECT set_config('statement_timeout', $1, true)`

	advance = `SELECT pg_replication_slot_advance($1, $2::pg_lsn)`
)

// A call decodes a step of the log, so that it comes to an end, and the next one goes on
// behind it. A transaction cannot be divided: with it goes tendTime.
const (
	tendStep = 32 << 20
	tendTime = 20 * time.Second
)

// Tend moves the slot of a lane towards the end of the log, by 32 MB at most, if nobody
// reads from it and nothing waits on the way, so that the server need not keep its log for
// a bus that takes no events. It takes 20 s at most; a reader that comes meanwhile has to
// try again.
func Tend(ctx context.Context, db DB, l Lane) error {
	ctx, cancel := context.WithTimeout(ctx, tendTime+time.Second)
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
	if _, err := tx.Exec(ctx, boundTend, strconv.FormatInt(tendTime.Milliseconds(), 10)); err != nil {
		return err
	}
	var slot, upTo string
	err := tx.QueryRow(ctx, nextStep, l.Name(), tendStep).Scan(&slot, &upTo)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if waits, err := l.waits(ctx, tx, slot, upTo); err != nil || waits {
		return err
	}
	_, err = tx.Exec(ctx, advance, slot, upTo)
	return err
}

// waits tells whether the log has something for the lane up to a position.
func (l Lane) waits(ctx context.Context, tx pgx.Tx, slot, upTo string) (bool, error) {
	rows, err := tx.Query(ctx, peek, slot, upTo, l.Name(), l.Prefix())
	if err != nil {
		return false, err
	}
	defer rows.Close()
	d := decoder{lane: l, relations: map[uint32]*pglogrepl.RelationMessage{}}
	var retried []int64
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return false, err
		}
		it, err := d.decode(data)
		switch {
		case err != nil:
			return false, err
		case it == nil:
		case it.retry == 0:
			return true, nil
		default:
			retried = append(retried, it.retry)
		}
	}
	if rows.Err() != nil || len(retried) == 0 {
		return false, rows.Err()
	}
	rows, err = tx.Query(ctx, retriedHere, retried, l.Bus)
	if err != nil {
		return false, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return slices.Contains(all, "pending"), err
}
