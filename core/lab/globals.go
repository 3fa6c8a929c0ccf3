package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What a chapter makes outside its schema has the schema's name in front: a channel,
// a slot, a publication, a prepared transaction. DROP SCHEMA does not remove them, and
// a prepared transaction even keeps it waiting for ever.
const (
	// A slot cannot be dropped while somebody reads from it. The reader of a run that
	// was killed may take a while to be noticed.
	endReaders = `
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
WHERE active_pid IS NOT NULL AND database = current_database() AND starts_with(slot_name, $1 || '_')`
	listSlots = `
SELECT slot_name FROM pg_replication_slots
WHERE database = current_database() AND starts_with(slot_name, $1 || '_') ORDER BY slot_name`
	dropSlot         = `SELECT pg_drop_replication_slot($1)`
	listPublications = `SELECT pubname FROM pg_publication WHERE starts_with(pubname, $1 || '_') ORDER BY pubname`
	listPrepared     = `
SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, $1 || '.') ORDER BY gid`
)

// objectInUse is what PostgreSQL answers for a slot that still has its reader.
const objectInUse = "55006"

// session is a pool or a connection.
type session interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// dropAll removes a run's schema and everything global that carries its name.
func dropAll(ctx context.Context, db session, schema string) error {
	err := errors.Join(
		dropEach(ctx, db, listPrepared, schema, func(gid string) error {
			_, err := db.Exec(ctx, "ROLLBACK PREPARED '"+strings.ReplaceAll(gid, "'", "''")+"'") // takes no parameter
			return err
		}),
		dropSlots(ctx, db, schema),
		dropEach(ctx, db, listPublications, schema, func(name string) error {
			_, err := db.Exec(ctx, "DROP PUBLICATION IF EXISTS "+pgx.Identifier{name}.Sanitize())
			return err
		}),
	)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return err
}

// dropSlots ends the readers and removes the slots as soon as they are free.
func dropSlots(ctx context.Context, db session, schema string) error {
	return poll(ctx, func() (bool, error) {
		if _, err := db.Exec(ctx, endReaders, schema); err != nil {
			return false, err
		}
		busy := false
		err := dropEach(ctx, db, listSlots, schema, func(slot string) error {
			_, err := db.Exec(ctx, dropSlot, slot)
			var said *pgconn.PgError
			if errors.As(err, &said) && said.Code == objectInUse {
				busy = true
				return nil
			}
			return err
		})
		return !busy, err
	})
}

// dropEach removes everything that a query lists for a schema. What cannot be removed
// does not keep the rest.
func dropEach(ctx context.Context, db session, list, schema string, drop func(name string) error) error {
	rows, err := db.Query(ctx, list, schema)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range names {
		if err := drop(n); err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", n, err))
		}
	}
	return errors.Join(errs...)
}
