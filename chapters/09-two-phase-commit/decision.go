package twophase

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

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

	// Nothing is left to decide, and the same event may be placed again. What somebody
	// who recovers has taken stays for a while: its coordinator may only be slow.
	forgetAbort = `
DELETE FROM decisions WHERE event_id = $1 AND decision = 'abort' AND NOT taken
AND NOT EXISTS (
	SELECT FROM pg_prepared_xacts WHERE gid = $2 AND database = current_database())`

	// An order is seen once it is committed.
	findOrder = `SELECT FROM orders WHERE event_id = $1`
)

// decide writes down that the event will be sent and the order committed.
func decide(ctx context.Context, db shop.DB, name string, o shop.Order) error {
	m := shop.OrderPlaced(o, Topic)
	tag, err := db.Exec(ctx, insertDecision,
		m.ID, o.Bus, m.Topic, m.Key, string(m.Payload), name)
	var said *pgconn.PgError
	taken := errors.As(err, &said) && said.Code == "23505" // unique_violation
	if taken || err == nil && tag.RowsAffected() == 0 {
		return errOvertaken
	}
	return err
}

var errOvertaken = errors.New("somebody else has decided about this event," +
	" or ended its transaction")

// withdraw takes the decision back, if it was written, and rolls back. It leaves
// alone what somebody else has decided: by now another order of the same event may
// be prepared under the name.
func (s *Recovering) withdraw(
	ctx context.Context, name string, o shop.Order, why error,
) error {
	if errors.Is(why, errOvertaken) {
		return inDoubt(why)
	}
	tag, err := s.exec(ctx, revokeDecision, o.EventID, o.Bus)
	if err != nil || tag.RowsAffected() == 0 {
		return inDoubt(errors.Join(why, err)) // for whoever recovers
	}
	err = refuse(ctx, s.DB, name, why)
	_, _ = s.exec(ctx, forgetAbort, o.EventID, name) // else the recovery forgets it
	return err
}

// exec does not stop with the request.
func (s *Recovering) exec(
	ctx context.Context, sql string, args ...any,
) (pgconn.CommandTag, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), insistLimit)
	defer cancel()
	return s.DB.Exec(ctx, sql, args...)
}

// commit commits what is decided. If it is gone, somebody who recovered was faster,
// or a person was, who may have said the opposite: the order tells.
func (s *Recovering) commit(ctx context.Context, name, eventID string) error {
	err := commit(ctx, s.DB, name)
	if errors.Is(err, prepared.ErrUnknown) {
		tag, unseen := s.exec(ctx, findOrder, eventID)
		if unseen == nil && tag.RowsAffected() == 1 {
			return nil
		}
	}
	return err
}
