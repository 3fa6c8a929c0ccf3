package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The condition on status makes it a compare-and-set: of two requests at once the
// second waits for the first one's lock, looks again and finds no dead letter.
const (
	askOne = `
WITH asked AS (
	UPDATE dead_letters SET status = 'requested' WHERE id = $1 AND status = 'dead' RETURNING id)
INSERT INTO replays (dead_letter, requested_by) SELECT id, coalesce(nullif($2, ''), current_user) FROM asked`

	askAll = `
WITH asked AS (
	UPDATE dead_letters SET status = 'requested'
	WHERE status = 'dead' AND id > $1 AND ($2 = '' OR bus = $2)
	  AND ($3 = '' OR strpos(lower(reason), lower($3)) > 0)
	RETURNING id)
INSERT INTO replays (dead_letter, requested_by) SELECT id, coalesce(nullif($4, ''), current_user) FROM asked`

	letterExists = `SELECT EXISTS (SELECT FROM dead_letters WHERE id = $1)`
)

// Replay asks for a dead letter to be handled again; by says who asks ("" is
// the database's user), and is kept with the time. A consumer's Run does the work, in whatever process it lives, through
// the same effect and with as many attempts as a delivery has. ErrUnknown and
// ErrNotDead change nothing; of several requests for one letter exactly one succeeds.
func Replay(ctx context.Context, db Beginner, id int64, by string) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, askOne, id, legible(by, longestName))
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, letterExists, id).Scan(&exists); err != nil {
			return err
		}
		if exists {
			return ErrNotDead
		}
		return ErrUnknown
	})
	if err != nil {
		return fmt.Errorf("dead letter %d: %w", id, err)
	}
	return nil
}

// ReplayAll asks for all dead letters that match the filter's Bus, Reason and After,
// in one statement, and says how many those are; Status and Limit do not matter.
func ReplayAll(ctx context.Context, db Beginner, f Filter, by string) (n int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, askAll, f.After, f.Bus, f.Reason, legible(by, longestName))
		n = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("inbox: replay: %w", err)
	}
	return n, nil
}
