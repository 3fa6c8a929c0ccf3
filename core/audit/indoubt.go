package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// InDoubt is an order that waits, prepared, for somebody to end its transaction.
// Nobody sees its row until then.
type InDoubt struct {
	GID   string    `json:"gid"`
	Since time.Time `json:"since"`
}

// The names are <schema>.<event id>. The view is no part of any snapshot: read in the
// first statement of a transaction it is the least older than the rows.
const (
	allInDoubt = `
SELECT substr(gid, length(current_schema()) + 2), gid, prepared FROM pg_prepared_xacts
WHERE database = current_database() AND starts_with(gid, current_schema() || '.')`

	readInDoubt = `
SELECT gid, prepared FROM pg_prepared_xacts
WHERE database = current_database() AND gid = current_schema() || '.' || $1`

	// An order in doubt whose event was handled is counted as a phantom already.
	countInDoubt = `
SELECT count(*) FROM (` + allInDoubt + `) AS p(event_id, gid, prepared)
WHERE NOT EXISTS (SELECT FROM processed d WHERE d.event_id::text = p.event_id)`
)

func (s Source) readInDoubt(ctx context.Context, tx pgx.Tx, t *Trail) (err error) {
	if s.InDoubtAfter > 0 {
		t.inDoubtAfter = s.InDoubtAfter
		t.InDoubt, err = one[InDoubt](ctx, tx, readInDoubt, t.EventID)
	}
	return err
}

func (s Source) collectInDoubt(ctx context.Context, tx pgx.Tx, of func(id string) *Trail) error {
	if s.InDoubtAfter == 0 {
		return nil
	}
	var id string
	var d InDoubt
	return each(ctx, tx, allInDoubt, []any{&id, &d.GID, &d.Since}, func() {
		row := d
		row.Since = row.Since.UTC()
		of(id).InDoubt = &row
		of(id).inDoubtAfter = s.InDoubtAfter
	})
}

// tallyInDoubt counts the orders in doubt of whose event nothing has come. While the
// story goes on a coordinator may still end them.
func (s Source) tallyInDoubt(ctx context.Context, tx pgx.Tx, v *Verdict, over bool) error {
	if s.InDoubtAfter == 0 {
		return nil
	}
	n := 0
	if err := tx.QueryRow(ctx, countInDoubt).Scan(&n); err != nil {
		return err
	}
	if over {
		v.Stuck += n
	} else {
		v.Pending += n
	}
	return nil
}

// judgeInDoubt: nobody sees the order. Whether that can still change by itself is a
// question of time; for good, it is a person's.
func (t *Trail) judgeInDoubt(w witness) {
	v, since := &t.Verdict, stamp(&t.InDoubt.Since)
	switch {
	case !w.over && t.AsOf.Sub(t.InDoubt.Since) <= t.inDoubtAfter:
		v.Pending = 1
		t.Why = fmt.Sprintf("the order is prepared since %s, and its coordinator may be about to end it", since)
	case t.hasEffect():
		v.Phantom = 1
		t.Why = fmt.Sprintf("in doubt since %s: the event was handled, and its order waits in the prepared transaction %s, "+
			"unseen and with its locks, until a person commits it", since, t.InDoubt.GID)
	default:
		v.Stuck = 1
		t.Why = fmt.Sprintf("in doubt since %s: the order waits in the prepared transaction %s, unseen and with its locks, "+
			"until a person ends it; its event was not handled", since, t.InDoubt.GID)
	}
}
