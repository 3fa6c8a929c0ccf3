package cdc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// minVersion has row filters and column lists in publications.
const minVersion = 150000

const (
	lockLane = `SELECT pg_advisory_lock(hashtext('outbox-playground slot'), hashtext($1))`

	askNumber = `SELECT ` + numberSQL + `::text`

	askServer = `
SELECT current_setting('server_version_num')::int, current_setting('wal_level'),
	(SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user)`

	// A publication outlives its tables, and then publishes nothing without a word.
	countTables = `
SELECT count(*) FROM pg_publication_tables
WHERE pubname = $1 AND schemaname = current_schema() AND tablename IN ('outbox', 'retries')`

	// Only inserts: what a relay writes into a row that was refused is nobody's news. A
	// person's retry is an update too, but it leaves a row in retries.
	createPublication = `
CREATE PUBLICATION %s FOR
	TABLE outbox (id, event_id, topic, key, headers, payload, status) WHERE (bus = %s),
	TABLE retries (id, outbox_id)
WITH (publish = 'insert')`

	usableSlot = `SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 AND wal_status <> 'lost'`
	anySlot    = `SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1`
	dropSlot   = `SELECT pg_drop_replication_slot($1)`
	makeSlot   = `SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')`

	// A slot that nobody noted would hide the gap before it. Its maker may die at any time,
	// so a note is open before the slot is made, and says since when afterwards.
	openNote = `INSERT INTO slots (bus) SELECT $1 WHERE NOT EXISTS (SELECT FROM slots WHERE bus = $1 AND since IS NULL)`
	noteSlot = `UPDATE slots SET since = $2::pg_lsn, made_at = clock_timestamp() WHERE bus = $1 AND since IS NULL`

	// Its maker has died. Since when the slot is there nobody knows; what it has delivered is
	// no longer its to deliver, and what was written before is taken to be in the gap.
	noteFound = `
UPDATE slots l SET since = r.confirmed_flush_lsn FROM pg_replication_slots r
WHERE l.bus = $1 AND l.since IS NULL AND r.slot_name = $2`

	// An end in order, because a client that goes away is not noticed while it waits.
	boundSlot = `SELECT set_config('statement_timeout', $1, false)`
)

// A new slot waits for every transaction of the server that is open, prepared ones
// included: until shortly before the caller's deadline, so that the reason can be told.
const (
	slotPatience = 10 * time.Second
	slotReserve  = 500 * time.Millisecond
)

func patience(ctx context.Context) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return max(slotReserve, time.Until(until)-slotReserve)
	}
	return slotPatience
}

// Prepare makes the publication and the slot of a lane, on a connection of its own, and
// changes nothing where both are there. A slot knows nothing of what was committed
// before it was made: call Prepare before the first event. Where it has to make a slot
// again, the events in between are lost to every reader; the table slots says since when.
//
// ErrUnsupported says what the server lacks; ErrNotYet may be over in a moment.
func Prepare(ctx context.Context, cfg *pgx.ConnConfig, l Lane) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cdc: %s: %w", l.Name(), err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = supported(ctx, conn)
	if err == nil {
		_, err = conn.Exec(ctx, lockLane, l.Name()) // until the connection ends
	}
	if err == nil {
		err = l.prepare(ctx, conn)
	}
	if err != nil {
		return fmt.Errorf("cdc: %s: %w", l.Name(), err)
	}
	return nil
}

// supported says what the server lacks, and how to give it.
func supported(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var level string
	var allowed *bool
	if err := conn.QueryRow(ctx, askServer).Scan(&version, &level, &allowed); err != nil {
		return err
	}
	switch {
	case version < minVersion:
		return fmt.Errorf("%w: it is version %d, row filters need 15; use a newer server", ErrUnsupported, version/10000)
	case level != "logical":
		return fmt.Errorf("%w: wal_level is %s; ALTER SYSTEM SET wal_level = 'logical', then restart the server", ErrUnsupported, level)
	case allowed == nil || !*allowed:
		return fmt.Errorf("%w: this role may not replicate; ALTER ROLE %s REPLICATION", ErrUnsupported,
			pgx.Identifier{conn.Config().User}.Sanitize())
	}
	return nil
}

// prepare makes what is missing. The publication comes first: decoding looks it up as
// it was at that moment of the log, and fails where it was not there yet.
func (l Lane) prepare(ctx context.Context, conn *pgx.Conn) error {
	tables, err := count(ctx, conn, countTables, l.Name())
	if err != nil {
		return err
	}
	var number string
	if err := conn.QueryRow(ctx, askNumber).Scan(&number); err != nil {
		return err
	}
	slots, err := count(ctx, conn, usableSlot, l.slot(number))
	if err != nil {
		return err
	}
	if tables == 2 && slots == 1 {
		_, err := conn.Exec(ctx, noteFound, l.Bus, l.slot(number))
		return err
	}
	if _, err := conn.Exec(ctx, openNote, l.Bus); err != nil {
		return err
	}
	if err := l.clear(ctx, conn, l.slot(number)); err != nil {
		return err
	}
	name := pgx.Identifier{l.Name()}.Sanitize()
	create := fmt.Sprintf(createPublication, name, "'"+strings.ReplaceAll(l.Bus, "'", "''")+"'") // takes no parameter
	if _, err := conn.Exec(ctx, create); err != nil {
		return err
	}
	return l.makeSlot(ctx, conn, l.slot(number))
}

// clear removes the half that is there: it was made for tables that are gone, or its
// log is. What the old slot had not delivered cannot be had from it any more.
func (l Lane) clear(ctx context.Context, conn *pgx.Conn, slot string) error {
	n, err := count(ctx, conn, anySlot, slot)
	if err != nil {
		return err
	}
	if n > 0 {
		if _, err := conn.Exec(ctx, dropSlot, slot); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "DROP PUBLICATION IF EXISTS "+pgx.Identifier{l.Name()}.Sanitize())
	return err
}

func (l Lane) makeSlot(ctx context.Context, conn *pgx.Conn, slot string) error {
	if _, err := conn.Exec(ctx, boundSlot, strconv.FormatInt(patience(ctx).Milliseconds(), 10)); err != nil {
		return err
	}
	var since string
	err := conn.QueryRow(ctx, makeSlot, slot).Scan(&since)
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && said.Code == "53400":
		return fmt.Errorf("%w: all its slots are in use; raise max_replication_slots and max_wal_senders, or drop some", ErrUnsupported)
	case errors.As(err, &said) && said.Code == "57014":
		return fmt.Errorf("%w; look into pg_stat_activity and pg_prepared_xacts, end it, and try again", ErrNotYet)
	case err != nil:
		return err
	}
	_, err = conn.Exec(ctx, noteSlot, l.Bus, since)
	return err
}

func count(ctx context.Context, conn *pgx.Conn, sql, name string) (n int, err error) {
	err = conn.QueryRow(ctx, sql, name).Scan(&n)
	return n, err
}
