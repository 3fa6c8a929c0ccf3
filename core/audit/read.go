package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DB is what reading needs of a pool whose connections work in the chapter's
// schema.
type DB interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Source is the chapter whose tables are read.
type Source struct {
	Chapter int
	DB      DB
	// Outbox says whether the schema has the table outbox.
	Outbox bool
	// DeadLetters says whether it has the table dead_letters; then it has an outbox.
	DeadLetters bool
	// Elsewhere says that listeners of other processes take the events. RabbitMQ does
	// not tell what those have in hand, so a silence proves something much later.
	Elsewhere bool
	// Log says that the log is the queue: no row is marked as sent, the slot named after
	// schema and bus says how far it is. Then it has an outbox, and a table slots.
	Log bool
	// InDoubtAfter: orders are prepared transactions, named after schema and event, and
	// one that is older than this is in doubt. Zero: they are not.
	InDoubtAfter time.Duration
}

const (
	readOrder = `SELECT id, user_id, items, bus, created_at FROM orders WHERE event_id = $1`

	readOutbox = `
SELECT id, bus, topic, status, attempts, last_error, created_at, sent_at
FROM outbox WHERE event_id = $1`

	readProcessed = `SELECT consumer, bus, at, deliveries FROM processed WHERE event_id = $1 ORDER BY id`

	readEmails = `SELECT recipient, bus, sent_at FROM emails WHERE event_id = $1 ORDER BY id`

	readLetters = `
SELECT id, consumer, bus, status, reason, attempts, first_at, failed_at
FROM dead_letters WHERE event_id = $1 ORDER BY id`

	// The database's clock wrote the rows, so their age is told by the same clock.
	readClock = `SELECT clock_timestamp()`
)

// read collects the rows of an event. One snapshot for all tables: between two
// ordinary statements the relay or the listener could act, and the trail would
// show a state that never was.
func (s Source) read(ctx context.Context, eventID string) (Trail, error) {
	t := Trail{EventID: eventID, Chapter: s.Chapter, DeadLetters: []DeadLetter{}, elsewhere: s.Elsewhere, log: s.Log}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.DB, snapshot, func(tx pgx.Tx) error { return s.readIn(ctx, tx, &t) })
	if err != nil {
		return Trail{}, fmt.Errorf("audit: event %s: %w", eventID, err)
	}
	t.Bus = t.whichBus()
	t.inUTC()
	return t, nil
}

func (s Source) readIn(ctx context.Context, tx pgx.Tx, t *Trail) (err error) {
	if err := s.readInDoubt(ctx, tx, t); err != nil {
		return err
	}
	if t.Order, err = one[Order](ctx, tx, readOrder, t.EventID); err != nil {
		return err
	}
	if s.Outbox {
		if t.Outbox, err = one[Outbox](ctx, tx, readOutbox, t.EventID); err != nil {
			return err
		}
	}
	if t.Processed, err = many[Delivery](ctx, tx, readProcessed, t.EventID); err != nil {
		return err
	}
	if t.Emails, err = many[Email](ctx, tx, readEmails, t.EventID); err != nil {
		return err
	}
	if s.DeadLetters {
		if t.DeadLetters, err = many[DeadLetter](ctx, tx, readLetters, t.EventID); err != nil {
			return err
		}
	}
	return tx.QueryRow(ctx, readClock).Scan(&t.AsOf)
}

// inUTC turns every time to UTC: pgx returns them in the zone of this machine.
func (t *Trail) inUTC() {
	times := []*time.Time{&t.AsOf}
	if t.Order != nil {
		times = append(times, &t.Order.CreatedAt)
	}
	if t.InDoubt != nil {
		times = append(times, &t.InDoubt.Since)
	}
	if t.Outbox != nil {
		times = append(times, t.Outbox.CreatedAt, t.Outbox.SentAt)
	}
	for i := range t.Processed {
		times = append(times, &t.Processed[i].At)
	}
	for i := range t.Emails {
		times = append(times, &t.Emails[i].SentAt)
	}
	for i := range t.DeadLetters {
		times = append(times, &t.DeadLetters[i].FirstAt, &t.DeadLetters[i].FailedAt)
	}
	for _, at := range times {
		if at != nil {
			*at = at.UTC()
		}
	}
}

func many[T any](ctx context.Context, tx pgx.Tx, sql, eventID string) ([]T, error) {
	rows, err := tx.Query(ctx, sql, eventID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// one returns nil where there is no row.
func one[T any](ctx context.Context, tx pgx.Tx, sql, eventID string) (*T, error) {
	rows, err := tx.Query(ctx, sql, eventID)
	if err != nil {
		return nil, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByPos[T])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return row, err
}

// whichBus is the bus of the order, else of whatever else there is.
func (t *Trail) whichBus() string {
	switch {
	case t.Order != nil:
		return t.Order.Bus
	case t.Outbox != nil:
		return t.Outbox.Bus
	case len(t.Processed) > 0:
		return t.Processed[0].Bus
	case len(t.Emails) > 0:
		return t.Emails[0].Bus
	case len(t.DeadLetters) > 0:
		return t.DeadLetters[0].Bus
	}
	return ""
}
