package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxPurge keeps a purge's transactions short, and its locks few.
const maxPurge = 1000

// Purger is what Purge needs of the database: a pool, or a connection.
type Purger interface {
	DB
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

const (
	// A row that was sent before the limit was written before it, too.
	purgeWindow = `
SELECT coalesce(max(id), 0), coalesce(bool_or(coalesce(created_at < $2, true)), false)
FROM (SELECT id, created_at FROM outbox WHERE id > $1 ORDER BY id LIMIT %d) seen`

	purgeSent = `
DELETE FROM outbox WHERE id = ANY (ARRAY(
	SELECT id FROM outbox
	WHERE id > $1 AND id <= $2 AND status = 'sent' AND sent_at < $3
	ORDER BY id
	FOR UPDATE SKIP LOCKED))`
)

// Purge removes rows that were sent longer than keep ago, and returns how many.
// Pending and failed rows stay, however old they are. It walks the table in the
// order of id, in transactions of at most batch rows (1 to 1,000; 0 is 1,000), and
// stops where no row is old enough, so it needs no index of its own. The moment is
// read from the database's clock. Several purges may run at once.
func Purge(ctx context.Context, db Purger, keep time.Duration, batch int) (removed int64, err error) {
	if keep < 0 {
		return 0, fmt.Errorf("outbox: purge: a negative time to keep: %v", keep)
	}
	if batch <= 0 || batch > maxPurge {
		batch = maxPurge
	}
	var limit time.Time
	if err := db.QueryRow(ctx, `SELECT clock_timestamp() - $1::interval`, keep).Scan(&limit); err != nil {
		return 0, fmt.Errorf("outbox: purge: %w", err)
	}
	window := fmt.Sprintf(purgeWindow, batch)
	for from := int64(0); ; {
		var to int64
		var old bool
		if err := db.QueryRow(ctx, window, from, limit).Scan(&to, &old); err != nil {
			return removed, fmt.Errorf("outbox: purge: %w", err)
		}
		if !old {
			return removed, nil
		}
		tag, err := db.Exec(ctx, purgeSent, from, to, limit)
		if err != nil {
			return removed, fmt.Errorf("outbox: purge: %w", err)
		}
		removed += tag.RowsAffected()
		from = to
	}
}
