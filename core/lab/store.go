package lab

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/pg"
)

// A living run holds this lock on a connection of its own. It ends with the
// process, however that ends, so a sweep can tell the dead from the living.
const tryRunLock = `SELECT pg_try_advisory_lock(hashtext('outbox-playground run'), hashtext($1))`

// lock is the sign of life of a run.
type lock struct{ conn *pgx.Conn }

var errLocked = errors.New("another process holds this run")

func takeLock(ctx context.Context, url, schema string) (*lock, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	var got bool
	err = conn.QueryRow(ctx, tryRunLock, schema).Scan(&got)
	if err == nil && !got {
		err = errLocked // only then: a sweep keeps silent about it
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return &lock{conn}, nil
}

func (l *lock) release(ctx context.Context) error {
	if l == nil {
		return nil
	}
	return l.conn.Close(ctx)
}

// migrate brings the schema in which runs are noted up to date, before the first one.
func (l *Lab) migrate(ctx context.Context) error {
	if l.migrated.Load() {
		return nil
	}
	err := pg.MigratePlayground(ctx, l.DatabaseURL)
	if err == nil {
		l.migrated.Store(true)
	}
	return err
}

// Save keeps a result. It outlives the run's schema.
func Save(ctx context.Context, db pg.DB, res Result) error {
	report, err := json.Marshal(res.Report)
	if err != nil {
		return err
	}
	trails, err := json.Marshal(res.Trails)
	if err != nil {
		return err
	}
	r := res.Report
	_, err = db.Exec(ctx, saveRun, r.ID, r.Chapter, r.Variant, r.Bus, r.Faults[0].Name, r.Standard, string(report), string(trails))
	return err
}

const saveRun = `
INSERT INTO playground.runs (id, chapter, variant, bus, fault, standard, report, trails)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
