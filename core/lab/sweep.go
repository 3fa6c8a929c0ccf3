package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/shop"
)

// What a run makes has to be known after its process has died. A sweep removes what
// is noted and nothing else: the database may be somebody's, with a schema of theirs
// that is called run_log.
const (
	noteTrace    = `INSERT INTO playground.traces (schema_name, bus, topic) VALUES ($1, $2, $3)`
	forgetTrace  = `DELETE FROM playground.traces WHERE schema_name = $1 AND bus = $2 AND topic = $3`
	forgetTraces = `DELETE FROM playground.traces WHERE schema_name = $1`
	listTraces   = `SELECT bus, topic FROM playground.traces WHERE schema_name = $1 ORDER BY bus, topic`
	listSchemas  = `SELECT DISTINCT schema_name FROM playground.traces ORDER BY schema_name`
)

// trace is a note of a topic; its schema is noted with it.
type trace struct{ Bus, Topic string }

// remember notes that a run is about to make a schema, and a topic on a broker.
func remember(ctx context.Context, db session, schema, busName, topic string) error {
	_, err := db.Exec(ctx, noteTrace, schema, busName, topic)
	return err
}

// Sweep removes what runs of dead processes left behind: schemas with all that carries
// their name in the database, and topics on the brokers that can be reached. It never
// touches a living run. What it cannot remove stays noted for the next sweep. The error
// is all runs' errors; a topic on a bus that this process does not use is none.
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
		if err := l.sweepOne(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", s, err))
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
	traces, err := pgx.CollectRows(rows, pgx.RowToStructByPos[trace])
	if err != nil || len(traces) == 0 { // none: its own clean-up was faster
		return err
	}
	return removeNoted(ctx, alive.conn, schema, traces, func(t trace) error {
		return l.removeTopic(ctx, schema, t)
	})
}

// removeNoted removes what was noted of a run. The database comes first: a slot keeps
// its log and a prepared transaction its locks, neither needs a broker, and a broker
// that is silent may use up the time. A note comes last, when all of it is gone: what
// nobody has noted is never found again.
func removeNoted(ctx context.Context, db session, schema string, traces []trace, remove func(trace) error) error {
	dropped := dropAll(ctx, db, schema)
	errs := []error{dropped}
	for _, t := range traces {
		err := remove(t)
		switch {
		case errors.Is(err, ErrBusStarting): // not this process's bus: the note waits for one that has it
		case err != nil:
			errs = append(errs, fmt.Errorf("%s on %s stays: %w", t.Topic, t.Bus, err))
		case dropped == nil:
			_, err = db.Exec(ctx, forgetTrace, schema, t.Bus, t.Topic)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (l *Lab) removeTopic(ctx context.Context, schema string, t trace) error {
	if t.Bus == "inmemory" {
		return nil // it died with its process
	}
	_, url, err := l.Bus(t.Bus)
	if err != nil {
		return err
	}
	b, err := l.Open(t.Bus, url)(ctx, BusOptions{Schema: schema})
	if err != nil {
		return err
	}
	defer b.Close()
	return removeFrom(ctx, b, t.Topic)
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
