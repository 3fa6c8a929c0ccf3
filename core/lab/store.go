package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
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
	if err := conn.QueryRow(ctx, tryRunLock, schema).Scan(&got); err != nil || !got {
		return nil, errors.Join(err, conn.Close(ctx), errLocked)
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

// What a run makes has to be known after its process has died. A sweep removes what
// is noted and nothing else: the database may be somebody's, with a schema of theirs
// that is called run_log.
const (
	noteTraces   = `INSERT INTO playground.traces (schema_name, bus, topic) VALUES ($1, $2, $3)`
	forgetTraces = `DELETE FROM playground.traces WHERE schema_name = $1`
	listTraces   = `SELECT bus, topic FROM playground.traces WHERE schema_name = $1`
	listSchemas  = `SELECT DISTINCT schema_name FROM playground.traces`
)

// remember notes that a run is about to make a schema, and a topic on a broker.
func remember(ctx context.Context, db session, schema, busName, topic string) error {
	_, err := db.Exec(ctx, noteTraces, schema, busName, topic)
	return err
}

// Sweep removes what runs of dead processes left behind: schemas, and topics on the
// brokers that can be reached. It never touches a living run. What it cannot reach
// stays noted for the next sweep.
func (l *Lab) Sweep(ctx context.Context) error {
	if err := l.migrate(ctx); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, l.DatabaseURL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, listSchemas)
	if err != nil {
		return err
	}
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range schemas {
		if err := l.sweepOne(ctx, s); !errors.Is(err, ErrBusStarting) { // this process does not use that bus
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (l *Lab) sweepOne(ctx context.Context, schema string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
	defer cancel()
	alive, err := takeLock(ctx, l.DatabaseURL, schema)
	if errors.Is(err, errLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer alive.release(context.WithoutCancel(ctx))
	rows, err := alive.conn.Query(ctx, listTraces, schema)
	if err != nil {
		return err
	}
	type trace struct{ Bus, Topic string }
	traces, err := pgx.CollectRows(rows, pgx.RowToStructByPos[trace])
	if err != nil {
		return err
	}
	for _, t := range traces {
		if err := l.removeTopic(ctx, schema, t.Bus, t.Topic); err != nil {
			return fmt.Errorf("sweep %s: %s stays: %w", schema, t.Bus, err)
		}
	}
	if _, err := alive.conn.Exec(ctx, forgetTraces, schema); err != nil {
		return err
	}
	return dropAll(ctx, alive.conn, schema)
}

func (l *Lab) removeTopic(ctx context.Context, schema, busName, topic string) error {
	if busName == "inmemory" {
		return nil // it died with its process
	}
	_, url, err := l.Bus(busName)
	if err != nil {
		return err
	}
	b, err := l.Open(busName, url)(ctx, BusOptions{Schema: schema})
	if err != nil {
		return err
	}
	defer b.Close()
	return removeFrom(ctx, b, topic)
}

// removeFrom deletes a topic and its group where the bus can do so.
func removeFrom(ctx context.Context, b any, topic string) error {
	t, ok := b.(interface {
		Remove(ctx context.Context, topic string, groups ...string) error
	})
	if !ok {
		return nil
	}
	return t.Remove(ctx, topic, shop.Group)
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
