package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The tally looks at every event that left a row anywhere. FULL JOIN, because a
// phantom has effects and no order.
const (
	tallyPlain = `
WITH effects AS (SELECT event_id, count(*) AS emails FROM emails GROUP BY event_id)
SELECT count(o.event_id),
	count(*) FILTER (WHERE o.event_id IS NOT NULL AND e.emails >= 1),
	count(*) FILTER (WHERE e.emails > 1),
	count(*) FILTER (WHERE o.event_id IS NULL),
	0, 0,
	count(*) FILTER (WHERE e.emails IS NULL)
FROM orders o FULL JOIN effects e USING (event_id)`

	tallyOutbox = `
WITH effects AS (SELECT event_id, count(*) AS emails FROM emails GROUP BY event_id)
SELECT count(o.event_id),
	count(*) FILTER (WHERE o.event_id IS NOT NULL AND e.emails >= 1),
	count(*) FILTER (WHERE e.emails > 1),
	count(*) FILTER (WHERE o.event_id IS NULL AND e.emails >= 1),
	count(*) FILTER (WHERE x.status = 'failed'),
	count(*) FILTER (WHERE x.status = 'pending'),
	count(*) FILTER (WHERE o.event_id IS NOT NULL AND e.emails IS NULL
		AND coalesce(x.status, 'sent') = 'sent')
FROM orders o FULL JOIN effects e USING (event_id) FULL JOIN outbox x USING (event_id)`

	// The same with dead letters: one that no email has made void is stuck while it
	// waits for a person, and pending while its replay does.
	tallyLetters = `
WITH effects AS (SELECT event_id, count(*) AS emails FROM emails GROUP BY event_id),
letters AS (SELECT event_id, (array_agg(status ORDER BY id))[1] AS parked
	FROM dead_letters WHERE status <> 'replayed' AND event_id IS NOT NULL GROUP BY event_id)
SELECT count(o.event_id),
	count(*) FILTER (WHERE o.event_id IS NOT NULL AND e.emails >= 1),
	count(*) FILTER (WHERE e.emails > 1),
	count(*) FILTER (WHERE o.event_id IS NULL AND e.emails >= 1),
	count(*) FILTER (WHERE x.status = 'failed' OR handed AND d.parked = 'dead'),
	count(*) FILTER (WHERE x.status = 'pending' OR handed AND d.parked = 'requested'),
	count(*) FILTER (WHERE o.event_id IS NOT NULL AND handed AND d.parked IS NULL)
FROM orders o FULL JOIN effects e USING (event_id) FULL JOIN outbox x USING (event_id)
	FULL JOIN letters d USING (event_id),
	LATERAL (SELECT e.emails IS NULL AND coalesce(x.status, 'sent') = 'sent') AS h(handed)`
)

// Where the log is the queue no row is marked as sent: what has not failed counts as
// handed over, and without an email is missing.
const unmarked = `FULL JOIN (SELECT event_id, nullif(status, 'pending') AS status FROM outbox) x`

// Tally counts what became of all events of a schema, in one snapshot. Orders whose
// event was handed over and not handled are lost when over is true, that is when
// nothing can come any more, and pending until then.
func Tally(ctx context.Context, s Source, over bool) (Verdict, error) {
	var v Verdict
	var missing int
	sql := tallyPlain
	switch {
	case s.DeadLetters:
		sql = tallyLetters
	case s.Outbox:
		sql = tallyOutbox
	}
	if s.Log {
		sql = strings.Replace(sql, "FULL JOIN outbox x", unmarked, 1)
	}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.DB, snapshot, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, sql).Scan(&v.Orders, &v.Delivered, &v.Duplicated,
			&v.Phantom, &v.Stuck, &v.Pending, &missing); err != nil {
			return err
		}
		return s.tallyInDoubt(ctx, tx, &v, over)
	})
	if err != nil {
		return Verdict{}, fmt.Errorf("audit: tally: %w", err)
	}
	if over {
		v.Lost = missing
	} else {
		v.Pending += missing
	}
	return v, nil
}
