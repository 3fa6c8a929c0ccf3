package inbox

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

// The states of a dead letter.
const (
	Dead      = "dead"      // waits for a person
	Requested = "requested" // somebody asked for a replay, which a consumer will run
	Replayed  = "replayed"  // handled after all
)

// Letter is a dead letter.
type Letter struct {
	ID        int64             `json:"id"`
	EventID   *string           `json:"event_id"` // nil when the message named none
	MessageID string            `json:"message_id"`
	Consumer  string            `json:"consumer"`
	Bus       string            `json:"bus"`
	Topic     string            `json:"topic"`
	Key       string            `json:"key"`
	Payload   []byte            `json:"-"` // as it came: need not be text
	Headers   map[string]string `json:"headers"`
	Reason    string            `json:"reason"`
	Attempts  int               `json:"attempts"`
	Status    string            `json:"status"`
	FirstAt   time.Time         `json:"first_at"`  // when its first attempt began
	FailedAt  time.Time         `json:"failed_at"` // when it was given up, the last time
	// Replays is how often a person asked; the other two are the last time.
	Replays     int        `json:"replays"`
	RequestedBy *string    `json:"requested_by"`
	RequestedAt *time.Time `json:"requested_at"`
}

// Filter says which dead letters are wanted. The zero value means the first page of
// all that are not replayed.
type Filter struct {
	Bus    string // only this bus; empty means every bus
	Reason string // only those whose reason contains this text, in any case
	Status string // only this state; empty means dead and requested
	After  int64  // only those with a higher id: the last id of the page before
	Limit  int    // letters of a page, 1 to MaxPage; 0 means DefaultPage
}

// The size of a page.
const (
	DefaultPage = 50
	MaxPage     = 200
)

// Pages go by id and not by OFFSET, so that a letter replayed meanwhile moves no
// other to another page. strpos takes the text as it is, where LIKE would give % and
// _ a meaning.
const listLetters = `
SELECT d.id, d.event_id::text, d.message_id, d.consumer, d.bus, d.topic, d.key, d.payload, d.headers,
	d.reason, d.attempts, d.status, d.first_at, d.failed_at,
	(SELECT count(*) FROM replays r WHERE r.dead_letter = d.id), last.requested_by, last.requested_at
FROM dead_letters d LEFT JOIN LATERAL (
	SELECT r.requested_by, r.requested_at FROM replays r
	WHERE r.dead_letter = d.id ORDER BY r.id DESC LIMIT 1) last ON true
WHERE d.id > $1
  AND ($2 = '' OR d.bus = $2)
  AND ($3 = '' OR strpos(lower(d.reason), lower($3)) > 0)
  AND CASE $4 WHEN '' THEN d.status <> 'replayed' ELSE d.status = $4 END
ORDER BY d.id
LIMIT $5`

// Letters lists dead letters, the oldest first. It never returns nil without an error.
func Letters(ctx context.Context, db Querier, f Filter) ([]Letter, error) {
	if f.Limit <= 0 {
		f.Limit = DefaultPage
	}
	rows, err := db.Query(ctx, listLetters, f.After, f.Bus, f.Reason, f.Status, min(f.Limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("inbox: dead letters: %w", err)
	}
	letters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Letter])
	if err != nil {
		return nil, fmt.Errorf("inbox: dead letters: %w", err)
	}
	for i := range letters {
		letters[i].inUTC()
	}
	return letters, nil
}

func (l *Letter) inUTC() {
	l.FirstAt, l.FailedAt = l.FirstAt.UTC(), l.FailedAt.UTC()
	if l.RequestedAt != nil {
		at := l.RequestedAt.UTC()
		l.RequestedAt = &at
	}
}
