package outbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Leased is the queue of many workers, on as many machines as you like. A claim
// writes a lease and a token into each row and ends; no transaction stays open
// while the broker is slow. Until the lease ends nobody else takes the row. After
// that somebody does, under a new token, and what the first worker then wants to
// write down is refused. (Its publish is not: no database can call that back.)
//
// Every moment is read from the database's clock; the workers' clocks may differ.
type Leased struct {
	// For is how long a row stays with the worker that claimed it. It should be
	// longer than a publish takes; a killed worker's rows wait that long. Default:
	// 30 s.
	For time.Duration
}

var _ Queue = Leased{}

const defaultLease = 30 * time.Second

// Term is how long a lease lasts.
func (q Leased) Term() time.Duration {
	if q.For <= 0 {
		return defaultLease
	}
	return q.For
}

// The subquery is Plain's claim. ARRAY(…) is evaluated once, so the claim takes exactly its limit; a join with
// the subquery could run it again for every row. The token comes from a sequence:
// one for a claim, never used twice. Neither lease column is in an index, so that
// the update needs no new index entries as long as there is room in the page.
const leasedClaim = `
UPDATE outbox SET lease_until = clock_timestamp() + $4::interval,
	lease_token = (SELECT nextval('outbox_leases'))
WHERE id = ANY (ARRAY(
	SELECT id FROM outbox
	WHERE status = 'pending' AND (bus, id) > ($1, $2) AND bus <= $1 AND id <> ALL ($3)
		AND next_attempt_at <= clock_timestamp()
		AND (lease_until IS NULL OR lease_until <= clock_timestamp())
	ORDER BY bus, id
	LIMIT %d
	FOR UPDATE SKIP LOCKED))
RETURNING id, attempts, event_id::text, topic, key, headers, payload, lease_token`

// Claim implements Queue.
func (q Leased) Claim(ctx context.Context, tx pgx.Tx, w Want) ([]Entry, error) {
	rows, err := query(ctx, tx, fmt.Sprintf(leasedClaim, w.Limit), w.Bus, w.After, noNull(w.Except), q.Term())
	// RETURNING promises no order.
	slices.SortFunc(rows, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	return rows, err
}

// Settle implements Queue. Only rows that still carry the claim's token change.
func (q Leased) Settle(ctx context.Context, db DB, s Settlement) (int, error) {
	return leasedStatements().settle(ctx, db, s)
}

const leasedRelease = `
UPDATE outbox SET lease_until = NULL, lease_token = NULL
WHERE id = ANY ($1) AND status = 'pending' AND lease_token = $2`

// Release implements Queue.
func (q Leased) Release(ctx context.Context, db DB, rows []Entry) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := db.Exec(ctx, leasedRelease, ids(rows), rows[0].Token)
	return err
}

func leasedStatements() statements {
	return statements{
		fenced: true,
		sent: `
UPDATE outbox SET status = 'sent', sent_at = clock_timestamp(), lease_until = NULL, lease_token = NULL
WHERE id = ANY ($1) AND status = 'pending' AND lease_token = $2`,
		deferred: `UPDATE outbox o SET last_error = e.error` + leasedMarked,
		retried: `
UPDATE outbox o SET attempts = o.attempts + 1, last_error = e.error,
	next_attempt_at = clock_timestamp() + e.delay * interval '1 second'` + leasedMarked,
		parked: `
UPDATE outbox o SET status = 'failed', attempts = o.attempts + 1, last_error = e.error` + leasedMarked,
	}
}

const leasedMarked = `, lease_until = NULL, lease_token = NULL
FROM unnest($1::bigint[], $2::int[], $3::text[], $4::float8[]) AS e (id, attempts, error, delay)
WHERE o.id = e.id AND o.status = 'pending' AND o.attempts = e.attempts AND o.lease_token = $5`
