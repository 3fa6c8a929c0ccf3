package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Row is a row of the outbox without its payload.
type Row struct {
	ID        int64      `json:"id"`
	EventID   string     `json:"event_id"`
	Bus       string     `json:"bus"`
	Topic     string     `json:"topic"`
	Status    string     `json:"status"`
	Attempts  int        `json:"attempts"`
	LastError string     `json:"last_error"`
	CreatedAt *time.Time `json:"created_at"`
}

// Filter says which failed rows are wanted. The zero value means the first page of
// all of them.
type Filter struct {
	Bus   string // only this bus; empty means every bus
	Error string // only rows whose last_error contains this text, in any case
	After int64  // only rows with a higher id: the last id of the page before
	Limit int    // rows of a page, 1 to MaxPage; 0 means DefaultPage
}

// The size of a page.
const (
	DefaultPage = 50
	MaxPage     = 200
)

// Pages go by id and not by OFFSET, so that a row retried meanwhile moves no other
// row to another page. No index serves status='failed': failed rows are few, the
// primary key gives the order, and an index would cost every insert. strpos takes
// the text as it is, where LIKE would give % and _ a meaning.
const listFailed = `
SELECT id, event_id::text, bus, topic, status, attempts, coalesce(last_error, ''), created_at
FROM outbox
WHERE status = 'failed' AND id > $1
  AND ($2 = '' OR bus = $2)
  AND ($3 = '' OR strpos(lower(last_error), lower($3)) > 0)
ORDER BY id
LIMIT $4`

// Failed lists the rows that the worker has given up, the oldest first.
func Failed(ctx context.Context, db Querier, f Filter) ([]Row, error) {
	if f.Limit <= 0 {
		f.Limit = DefaultPage
	}
	rows, err := db.Query(ctx, listFailed, f.After, f.Bus, f.Error, min(f.Limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("outbox: failed rows: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
}
