package audit

import (
	"context"
	"fmt"

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
)

// Tally counts what became of all events of a schema, in one snapshot. Orders whose
// event was handed over and not handled are lost when over is true, that is when
// nothing can come any more, and pending until then.
func Tally(ctx context.Context, s Source, over bool) (Verdict, error) {
	var v Verdict
	var missing int
	sql := tallyPlain
	if s.Outbox {
		sql = tallyOutbox
	}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.DB, snapshot, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql).Scan(&v.Orders, &v.Delivered, &v.Duplicated,
			&v.Phantom, &v.Stuck, &v.Pending, &missing)
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
