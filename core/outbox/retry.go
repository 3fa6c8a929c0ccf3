package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Beginner starts a transaction: a pool, a connection or a transaction.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Why a row cannot be retried.
var (
	ErrUnknown   = errors.New("outbox: there is no such row")
	ErrNotFailed = errors.New("outbox: the row has not failed")
)

// Retry is RetryAs in the name of the database's user.
func Retry(ctx context.Context, db Beginner, id int64) (Row, error) {
	return RetryAs(ctx, db, id, "")
}

// RetryAs makes a failed row pending again, due at once and with all its attempts
// before it, and returns it. Who asked for it and when is kept in the table retries,
// where the schema has one (from chapter 4 on). ErrUnknown and ErrNotFailed change
// nothing; of several retries of one row exactly one succeeds.
func RetryAs(ctx context.Context, db Beginner, id int64, who string) (Row, error) {
	var retried Row
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		rows, err := retryRows(ctx, tx, `id = $1`, id, who)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return whyNot(ctx, tx, id)
		}
		retried = rows[0]
		return nil
	})
	if err != nil {
		return Row{}, fmt.Errorf("outbox row %d: %w", id, err)
	}
	return retried, nil
}

// retryPage bounds the rows that one transaction of RetryAll locks.
const retryPage = 1000

// RetryAll makes all failed rows of a filter pending again, and returns how many.
// Limit bounds them, 0 is no bound. It works in transactions of 1,000 rows: an
// error leaves what was done before it done, and counted. A row that fails again
// meanwhile is not taken twice.
func RetryAll(ctx context.Context, db Beginner, f Filter, who string) (int64, error) {
	var done int64
	for {
		page := f
		page.Limit = retryPage
		if left := int64(f.Limit) - done; f.Limit > 0 {
			page.Limit = int(min(left, retryPage))
		}
		if page.Limit == 0 {
			return done, nil
		}
		n, last, err := retrySome(ctx, db, page, who)
		done += int64(n)
		if err != nil || n < page.Limit {
			return done, err
		}
		f.After = last
	}
}

const chooseFailed = `
SELECT id FROM outbox
WHERE status = 'failed' AND id > $1
	AND ($2 = '' OR bus = $2)
	AND ($3 = '' OR strpos(lower(last_error), lower($3)) > 0)
ORDER BY id
LIMIT $4
FOR UPDATE`

// retrySome retries one page and says how many rows it had and how far it came.
func retrySome(ctx context.Context, db Beginner, f Filter, who string) (n int, last int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, chooseFailed, f.After, f.Bus, f.Error, f.Limit)
		if err != nil {
			return err
		}
		chosen, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(chosen) == 0 {
			return err
		}
		n, last = len(chosen), chosen[len(chosen)-1]
		_, err = retryRows(ctx, tx, `id = ANY ($1)`, chosen, who)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("outbox: retry: %w", err)
	}
	return n, last, nil
}

// The condition on status makes it a compare-and-set: of two retries at once the
// second waits for the first one's lock, looks again and finds no failed row.
// last_error stays: it is why a person was needed.
const (
	retryFailed = `
UPDATE outbox SET status = 'pending', attempts = 0%s
WHERE %s AND status = 'failed'
RETURNING id, event_id::text, bus, topic, status, attempts, coalesce(last_error, ''), created_at`

	// The attempts are read before the update, whose row locks make them current.
	keepRetry = `
INSERT INTO retries (outbox_id, event_id, attempts, last_error, by)
SELECT id, event_id, attempts, last_error, coalesce(nullif($2, ''), session_user)
FROM (SELECT * FROM outbox WHERE %s AND status = 'failed' FOR UPDATE) failed`
)

func retryRows(ctx context.Context, tx pgx.Tx, which string, key any, who string) ([]Row, error) {
	has, err := columns(ctx, tx)
	if err != nil {
		return nil, err
	}
	set := ""
	if has["next_attempt_at"] {
		set += `, next_attempt_at = clock_timestamp()`
	}
	if has["lsn"] { // where the rows are read from the log, a retry is news in it
		set += `, lsn = pg_current_wal_insert_lsn()`
	}
	if has["retries"] {
		if _, err := tx.Exec(ctx, fmt.Sprintf(keepRetry, which), key, text(who)); err != nil {
			return nil, err
		}
	}
	rows, err := tx.Query(ctx, fmt.Sprintf(retryFailed, set, which), key)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
}

// The table grows from chapter to chapter, and a person's retry has to work on each
// of its forms. Retries are rare enough to ask.
const whatIsThere = `
SELECT attname::text FROM pg_attribute
WHERE attrelid = 'outbox'::regclass AND attname IN ('next_attempt_at', 'lsn') AND NOT attisdropped
UNION ALL
SELECT 'retries' WHERE to_regclass('retries') IS NOT NULL`

func columns(ctx context.Context, tx pgx.Tx) (map[string]bool, error) {
	rows, err := tx.Query(ctx, whatIsThere)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	has := map[string]bool{}
	for _, n := range names {
		has[n] = true
	}
	return has, err
}

const rowExists = `SELECT EXISTS (SELECT FROM outbox WHERE id = $1)`

// whyNot tells a row that is not there from one that has not failed.
func whyNot(ctx context.Context, tx pgx.Tx, id int64) error {
	var exists bool
	if err := tx.QueryRow(ctx, rowExists, id).Scan(&exists); err != nil {
		return err
	}
	if exists {
		return ErrNotFailed
	}
	return ErrUnknown
}
