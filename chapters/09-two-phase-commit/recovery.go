package twophase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
)

const (
	// The first decision about an event stands: a later one breaks the primary key.
	// Once nothing is prepared any more there is nothing to decide: a coordinator that
	// was stopped for minutes finds neither its transaction nor the abort that ended
	// it.
	insertDecision = `
INSERT INTO decisions (event_id, decision, bus, topic, key, payload)
SELECT $1::uuid, 'commit', $2::text, $3::text, $4::text, $5::jsonb
FROM pg_prepared_xacts WHERE gid = $6 AND database = current_database()`

	// Writes abort, over the coordinator's own commit too, unless somebody acts on it.
	revokeDecision = `
INSERT INTO decisions (event_id, decision, bus, topic, key, payload)
VALUES ($1, 'abort', $2, '', '', '{}')
ON CONFLICT (event_id) DO UPDATE SET decision = 'abort' WHERE NOT decisions.taken`

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

// decide writes down that the event will be sent and the order committed.
func decide(ctx context.Context, db shop.DB, name string, o shop.Order) error {
	m := shop.OrderPlaced(o, Topic)
	tag, err := db.Exec(ctx, insertDecision,
		m.ID, o.Bus, m.Topic, m.Key, string(m.Payload), name)
	if err == nil && tag.RowsAffected() == 0 {
		return errOvertaken
	}
	return err
}

var errOvertaken = errors.New("somebody who recovers has ended the transaction" +
	" before it was decided")

// withdraw takes the decision back, if it was written, and rolls back.
func (s *Recovering) withdraw(
	ctx context.Context, name string, o shop.Order, why error,
) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), insistLimit)
	defer cancel()
	tag, err := s.DB.Exec(limited, revokeDecision, o.EventID, o.Bus)
	if err != nil || tag.RowsAffected() == 0 {
		return inDoubt(errors.Join(why, err)) // for whoever recovers
	}
	return refuse(ctx, s.DB, name, why)
}

// commitDecided commits what nobody may roll back any more: if it is gone, somebody
// who recovered was faster.
func commitDecided(ctx context.Context, db shop.DB, name string) error {
	err := commit(ctx, db, name)
	if errors.Is(err, prepared.ErrUnknown) {
		return nil
	}
	return err
}

// Recovery finishes what a coordinator has left behind: what is decided is sent again
// and committed, all else is rolled back. Any number may work side by side.
type Recovery struct {
	DB      shop.DB
	Bus     bus.Bus
	BusName string
	Schema  string
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
		if t.AgeMS > recoverAfter.Milliseconds() {
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
	if _, err := r.DB.Exec(ctx, presumeAbort, t.EventID, r.BusName); err != nil {
		return err
	}
	decision, m := "", bus.Message{ID: t.EventID}
	err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, takeDecision, t.EventID, r.BusName)
		return row.Scan(&decision, &m.Topic, &m.Key, &m.Payload)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil // another lane's
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
