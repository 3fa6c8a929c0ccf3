package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Counts says how many rows are in which state.
type Counts struct {
	Pending int64 `json:"pending"`
	// OldestPendingLagMS is how long the oldest pending row has been waiting, in
	// milliseconds; nil when none is pending.
	OldestPendingLagMS *int64 `json:"oldest_pending_lag_ms"`
	Failed             int64  `json:"failed"`
	Sent               int64  `json:"sent"`
}

// Stats are the counts of a whole outbox and of each bus that has rows in it, all
// from one moment.
type Stats struct {
	Counts
	ByBus map[string]Counts `json:"by_bus"`
}

// One statement, hence one snapshot: the numbers belong together. The pending half
// spells status='pending' out, so that the partial index serves it however many
// rows have been sent; the other half has to count those. clock_timestamp(),
// because inside a transaction now() stands still.
const countRows = `
SELECT bus, 'pending', count(*),
       greatest(0, extract(epoch FROM clock_timestamp() - min(created_at)) * 1000)::bigint
FROM outbox WHERE status = 'pending' GROUP BY bus
UNION ALL
SELECT bus, status, count(*), NULL
FROM outbox WHERE status <> 'pending' GROUP BY bus, status`

type countRow struct {
	Bus, Status string
	N           int64
	Lag         *int64
}

// ReadStats counts the rows of the outbox.
func ReadStats(ctx context.Context, db Querier) (Stats, error) {
	rows, err := db.Query(ctx, countRows)
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	counted, err := pgx.CollectRows(rows, pgx.RowToStructByPos[countRow])
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	s := Stats{ByBus: map[string]Counts{}}
	for _, r := range counted {
		s.Counts = s.add(r)
		s.ByBus[r.Bus] = s.ByBus[r.Bus].add(r)
	}
	return s, nil
}

// add returns the counts with one more row of the query in them.
func (c Counts) add(r countRow) Counts {
	switch r.Status {
	case "pending":
		c.Pending += r.N
		if r.Lag != nil && (c.OldestPendingLagMS == nil || *r.Lag > *c.OldestPendingLagMS) {
			c.OldestPendingLagMS = r.Lag
		}
	case "failed":
		c.Failed += r.N
	default:
		c.Sent += r.N
	}
	return c
}
