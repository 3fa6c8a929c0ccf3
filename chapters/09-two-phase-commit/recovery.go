package twophase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
)

const (
	// Presumed abort. It is written down, for the coordinator may only be slow: then
	// its own decision fails, and it sends nothing.
	presumeAbort = `
INSERT INTO decisions (event_id, decision, bus, topic, key, payload)
VALUES ($1, 'abort', $2, '', '', '{}')
ON CONFLICT (event_id) DO NOTHING`

	// From here on it stands, and whoever reads it may act.
	takeDecision = `
UPDATE decisions SET taken = true WHERE event_id = $1 AND bus = $2
RETURNING decision, topic, key, payload`

	// What is not prepared any more needs no decision.
	forgetDecisions = `
DELETE FROM decisions d
WHERE at < clock_timestamp() - interval '1 minute' AND NOT EXISTS (
	SELECT FROM pg_prepared_xacts p
	WHERE p.gid = current_schema() || '.' || d.event_id
	AND p.database = current_database())`
)

// Recovery finishes what a coordinator has left behind: what is decided is sent again
// and committed, all else is rolled back. Any number may work side by side.
//
// Where the schema is Shared with coordinators that write nothing down, it presumes
// nothing: what has no decision may be theirs, and waits for a person.
type Recovery struct {
	DB      shop.DB
	Bus     bus.Bus
	BusName string
	Schema  string
	Shared  bool
	Steps   *checkpoint.Steps
	Log     *slog.Logger
}

// Of the recovery. A coordinator that is only slow is not harmed by it.
const (
	recoverAfter = 2 * time.Second
	recoverEvery = 500 * time.Millisecond
)

// Run recovers, now and then, until ctx ends.
func (r *Recovery) Run(ctx context.Context) error {
	tick := time.NewTicker(recoverEvery)
	defer tick.Stop()
	for {
		if err := r.once(ctx); err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "recovery", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *Recovery) once(ctx context.Context) error {
	var all []prepared.Transaction
	err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) (err error) {
		all, err = prepared.List(ctx, tx, r.Schema)
		return err
	})
	for _, t := range all {
		foreign := uuid.Validate(t.EventID) != nil // named by somebody else
		if !foreign && t.AgeMS > recoverAfter.Milliseconds() {
			err = errors.Join(err, r.settle(ctx, t))
		}
	}
	if err == nil {
		_, err = r.DB.Exec(ctx, forgetDecisions)
	}
	return err
}

// settle ends one transaction as its decision says.
func (r *Recovery) settle(ctx context.Context, t prepared.Transaction) error {
	if !r.Shared {
		if _, err := r.DB.Exec(ctx, presumeAbort, t.EventID, r.BusName); err != nil {
			return err
		}
	}
	decision, m := "", bus.Message{ID: t.EventID}
	err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, takeDecision, t.EventID, r.BusName)
		return row.Scan(&decision, &m.Topic, &m.Key, &m.Payload)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil // another lane's, or not decided
	case err != nil:
		return err
	case decision == "abort":
		return ended(prepared.Rollback(ctx, r.DB, t.GID))
	}
	if err := r.again(ctx, m); err != nil {
		return fmt.Errorf("event %s: %w", m.ID, err) // the next round tries again
	}
	return ended(prepared.Commit(ctx, r.DB, t.GID))
}

// again publishes what may have been published before.
func (r *Recovery) again(ctx context.Context, m bus.Message) error {
	if err := r.Steps.Reach(ctx, checkpoint.BeforePublish, m.ID); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := r.Bus.Publish(limited, m); err != nil {
		return err
	}
	return r.Steps.Reach(ctx, checkpoint.AfterPublish, m.ID)
}

// ended: one that is gone was ended by somebody else, by the same decision.
func ended(err error) error {
	if errors.Is(err, prepared.ErrUnknown) {
		return nil
	}
	return err
}
