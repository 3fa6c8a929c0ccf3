package outbox

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// Leased is the queue of many workers, on as many machines as you like. A claim
// writes down which rows it has, until when, and ends; no transaction stays open
// while the broker is slow. Until the lease ends nobody else takes the rows. After
// that somebody does, under a new token, and what the first worker then wants to
// write down is refused. (Its publish is not: no database can call that back.)
//
// Every moment is read from the database's clock; the workers' clocks may differ.
type Leased struct {
	// For is how long rows stay with the worker that claimed them. It should be
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

const (
	// oneAtATime lets the claims of a bus follow one another: a claim has to see all
	// earlier ones, and that takes a snapshot that is younger than they are. It is
	// held for as long as a claim takes, a few milliseconds, never during a publish. A
	// worker that is stopped just then holds it, too: the server ends its session, which
	// frees the bus for the others.
	oneAtATime = `
SELECT set_config('idle_in_transaction_session_timeout', '5s', true), set_config('enable_sort', 'off', true),
	pg_advisory_xact_lock('outbox_claims'::regclass::oid::int, hashtext($1))`

	// A claim that is being settled at this moment is locked, and counts as living
	// however old it is.
	endOverdue = `
DELETE FROM outbox_claims WHERE token IN (
	SELECT token FROM outbox_claims WHERE bus = $1 AND lease_until <= clock_timestamp()
	FOR UPDATE SKIP LOCKED)`

	// Plain's claim, without the rows of other claims and without row locks. Those
	// claims are known by their ranges and read once, because their table is mostly
	// claims that are over and not yet vacuumed. The price of a range is that a row which
	// is committed late, or due again, inside that of a living claim waits for its end.
	leasedClaim = `
SELECT id, attempts, event_id::text, topic, key, headers, payload
FROM outbox
WHERE status = 'pending' AND (bus, id) > ($1, $2) AND bus <= $1 AND id <> ALL ($3)
	AND next_attempt_at <= clock_timestamp()
	AND NOT id <@ (SELECT coalesce(range_agg(int8range(first_id, last_id, '[]')), '{}') FROM outbox_claims WHERE bus = $1)
ORDER BY bus, id
LIMIT %d`

	beginClaim = `
INSERT INTO outbox_claims (token, bus, first_id, last_id, lease_until)
VALUES ($1, $2, $3, $4, clock_timestamp() + $5::interval)`
)

// Claim implements Queue. The transaction must be READ COMMITTED.
func (q Leased) Claim(ctx context.Context, tx pgx.Tx, w Want) ([]Entry, error) {
	batch := &pgx.Batch{}
	batch.Queue(oneAtATime, w.Bus)
	batch.Queue(endOverdue, w.Bus)
	rows, err := query(ctx, tx, batch, leasedClaim, w)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	// Not of a sequence: a server that crashes and forgets a claim would forget its
	// number, too, and give it to somebody else.
	token := rand.Int64()
	_, err = tx.Exec(ctx, beginClaim, token, w.Bus, rows[0].ID, rows[len(rows)-1].ID, q.Term())
	for i := range rows {
		rows[i].Token = token
	}
	return rows, err
}

const (
	// The usual case in one statement: everything was sent, the claim is over.
	leasedSent = `
WITH mine AS (DELETE FROM outbox_claims WHERE token = $2 RETURNING token)
UPDATE outbox SET status = 'sent', sent_at = clock_timestamp()
WHERE id = ANY ($1) AND status || '' = 'pending' AND EXISTS (SELECT FROM mine)`

	// The same for several claims. One alone keeps to the form above: a list of tokens
	// lets the planner read the whole table of claims, which under a long snapshot is full
	// of dead ones. Of the rows $1 those are marked whose token, at the same place in $2,
	// was still there. They are put together first: to join the two lists with the table
	// costs a seventh more.
	leasedSentAll = `
WITH mine AS (DELETE FROM outbox_claims WHERE token = ANY ($2) RETURNING token)
UPDATE outbox SET status = 'sent', sent_at = clock_timestamp()
WHERE status || '' = 'pending' AND id = ANY (ARRAY(
	SELECT id FROM unnest($1::bigint[], $2::bigint[]) AS e (id, token)
	WHERE token IN (SELECT token FROM mine)))`

	endClaim  = `DELETE FROM outbox_claims WHERE token = $1`
	holdClaim = `SELECT FROM outbox_claims WHERE token = $1 FOR UPDATE`
)

// Settle implements Queue. It changes something only while the claim is there, which
// it ends by that: the lock on the claim keeps the next worker away until the rows
// are written.
func (q Leased) Settle(ctx context.Context, db DB, s Settlement) (conflicts int, err error) {
	if s.rows() == 0 {
		return 0, nil
	}
	if s.plain() {
		if of := tokens(s.Sent); of[0] != of[len(of)-1] { // the rows of a claim stand together
			return task{leasedSentAll, []any{ids(s.Sent), of}, len(s.Sent)}.do(ctx, db)
		}
		return task{leasedSent, []any{ids(s.Sent), s.token()}, len(s.Sent)}.do(ctx, db)
	}
	fence := endClaim
	if s.Partial {
		fence = holdClaim
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		held, err := tx.Exec(ctx, fence, s.token())
		if conflicts = s.rows(); err != nil || held.RowsAffected() == 0 {
			return err
		}
		conflicts, err = plainStatements().all(ctx, tx, s)
		return err
	})
	return conflicts, err
}

// Release implements Queue.
func (q Leased) Release(ctx context.Context, db DB, rows []Entry) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := db.Exec(ctx, endClaim, rows[0].Token)
	return err
}
