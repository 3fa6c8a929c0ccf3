package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Stats count the dead letters, all from one moment.
type Stats struct {
	Dead      int64 `json:"dead"`      // wait for a person
	Requested int64 `json:"requested"` // their replay is under way
	Replayed  int64 `json:"replayed"`
}

const countLetters = `
SELECT count(*) FILTER (WHERE status = 'dead'), count(*) FILTER (WHERE status = 'requested'),
	count(*) FILTER (WHERE status = 'replayed')
FROM dead_letters`

// ReadStats counts the dead letters. It reads all of them; they are few, or something
// else is the matter.
func ReadStats(ctx context.Context, db Querier) (Stats, error) {
	rows, err := db.Query(ctx, countLetters)
	if err != nil {
		return Stats{}, fmt.Errorf("inbox: stats: %w", err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Stats])
	if err != nil {
		return Stats{}, fmt.Errorf("inbox: stats: %w", err)
	}
	return s, nil
}
