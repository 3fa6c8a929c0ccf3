package lab

import (
	"context"

	"outboxplayground/core/audit"
)

// logMark is the end of the log when a number of rows was first seen. They were all
// committed before it. The end of now is no measure: others write into the same log,
// and a slot never catches up with it.
type logMark struct {
	rows int
	end  string
}

// Whatever can be news for a relay that reads the log: an order, with or without a row
// in the outbox, and a row that was given back.
const stateLog = `
SELECT (SELECT count(*) FROM orders),
	(SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox) + (SELECT count(*) FROM retries),
	(SELECT count(*) FROM emails),
	(SELECT count(*) FROM orders o WHERE EXISTS (SELECT FROM emails e WHERE e.event_id = o.event_id))`

// lookIntoLog is look where no row says whether it was sent: until the slot has passed
// what there is, all of it counts as unsent. A slot that is gone will bring nothing.
func (r *run) lookIntoLog(ctx context.Context) (s state, err error) {
	rows := 0
	if err := r.pool.QueryRow(ctx, stateLog).Scan(&s.orders, &rows, &s.emails, &s.withEmail); err != nil {
		return s, err
	}
	if rows != r.log.rows || r.log.end == "" {
		end, err := audit.LogEnd(ctx, r.pool)
		if err != nil {
			return s, err
		}
		r.log = logMark{rows, end}
	}
	exists, passed, err := audit.Passed(ctx, r.pool, r.spec.Bus, r.log.end)
	if exists && !passed {
		s.unsent = s.orders
	}
	return s, err
}

// awaitPassed waits until the target's order is committed and the slot has passed it.
func (r *run) awaitPassed(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		n, err := r.count(ctx, `SELECT count(*) FROM orders WHERE event_id = $1`, r.target())
		if err != nil || n == 0 {
			return false, err
		}
		s, err := r.lookIntoLog(ctx)
		return s.unsent == 0, err
	})
}
