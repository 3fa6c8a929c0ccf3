package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Plain is the queue of a single worker. A claim locks its rows only until its
// transaction ends; from then on nothing but the worker's memory knows that they
// are being sent, so a second worker would send them too.
type Plain struct{}

var _ Queue = Plain{}

// The index (bus, id) WHERE status = 'pending' gives the rows in their order, so
// that a claim costs the same however many are pending or have been sent. With
// "bus = $1 AND id > $2 ORDER BY id" the primary key would give the same order, and
// a generic plan takes it, in the belief that pending rows lie everywhere: it then
// reads all that was ever sent. A range of both columns fits our index alone.
// LIMIT is written into the text, because a generic plan would have to guess it.
const plainClaim = `
SELECT id, attempts, event_id::text, topic, key, headers, payload
FROM outbox
WHERE status = 'pending' AND (bus, id) > ($1, $2) AND bus <= $1 AND id <> ALL ($3)
	AND next_attempt_at <= clock_timestamp()
ORDER BY bus, id
LIMIT %d
FOR UPDATE SKIP LOCKED`

// Claim implements Queue.
func (Plain) Claim(ctx context.Context, tx pgx.Tx, w Want) ([]Entry, error) {
	batch := &pgx.Batch{}
	batch.Queue(noSort)
	return query(ctx, tx, batch, plainClaim, w)
}

// Settle implements Queue. A row that another worker has marked meanwhile is a
// conflict. Attempts are compared so that settling twice spends one attempt.
func (Plain) Settle(ctx context.Context, db DB, s Settlement) (int, error) {
	return plainStatements().settle(ctx, db, s)
}

// Release implements Queue: there is nothing to give back.
func (Plain) Release(context.Context, DB, []Entry) error { return nil }

func plainStatements() statements {
	return statements{
		sent: `
UPDATE outbox SET status = 'sent', sent_at = clock_timestamp()
WHERE id = ANY ($1) AND status || '' = 'pending'`,
		deferred: `
UPDATE outbox o SET last_error = e.error, next_attempt_at = CASE WHEN e.delay = 0 THEN o.next_attempt_at
	ELSE clock_timestamp() + e.delay * interval '1 second' END` + plainMarked,
		retried: `
UPDATE outbox o SET attempts = o.attempts + 1, last_error = e.error,
	next_attempt_at = clock_timestamp() + e.delay * interval '1 second'` + plainMarked,
		parked: `
UPDATE outbox o SET status = 'failed', attempts = o.attempts + 1, last_error = e.error` + plainMarked,
	}
}

const plainMarked = `
FROM unnest($1::bigint[], $2::int[], $3::text[], $4::float8[]) AS e (id, attempts, error, delay)
WHERE o.id = e.id AND o.status || '' = 'pending' AND o.attempts = e.attempts`

// The statistics of a queue are nearly always wrong: taken while it was empty, they
// promise so few pending rows that reading all of them and sorting looks cheap, and
// then a backlog is sorted for every claim. Without sorting, our index is the only
// way to the order that is asked for. It holds until the claim's transaction ends.
const noSort = `SET LOCAL enable_sort = off`

// query reads claimed rows, in one round trip with what has to come before.
func query(ctx context.Context, tx pgx.Tx, before *pgx.Batch, sql string, w Want) ([]Entry, error) {
	n := before.Len()
	before.Queue(fmt.Sprintf(sql, w.Limit), w.Bus, w.After, noNull(w.Except))
	results := tx.SendBatch(ctx, before)
	defer results.Close()
	for range n {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var entries []Entry
	for rows.Next() {
		if entries == nil {
			entries = make([]Entry, 0, w.Limit)
		}
		var e Entry
		m := &e.Message
		if err := rows.Scan(&e.ID, &e.Attempts, &m.ID, &m.Topic, &m.Key, &m.Headers, &m.Payload); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return entries, results.Close()
}

// noNull: a nil slice would be NULL, and nothing is unequal to all of NULL.
func noNull(ids []int64) []int64 {
	if ids == nil {
		return []int64{}
	}
	return ids
}
