package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// Beginner starts a transaction: a pool, a connection or a transaction. The
// statements rely on READ COMMITTED, which is PostgreSQL's default.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Effect is what a message causes. What it writes through tx happens once; it leaves
// the end of the transaction to its caller.
type Effect func(ctx context.Context, tx pgx.Tx, m bus.Message) error

// Once runs an effect once for every event, however often the event comes. Its fields
// are not changed after the first call; its methods are safe for concurrent use, and
// any number of processes may work with the same tables.
type Once struct {
	DB Beginner
	// Consumer names the listener: the same event has one effect for each of them.
	Consumer string
	// Bus is the name of the bus it listens to.
	Bus    string
	Effect Effect
	// Steps are passed as before-effect, after-effect and before-ack. May be nil.
	Steps  *checkpoint.Steps
	Config Config
	// Log is told about dead letters and replays. Default: discarded.
	Log *slog.Logger
}

const (
	recordDelivery = `
INSERT INTO processed (event_id, consumer, bus) VALUES ($1, $2, $3)
ON CONFLICT (event_id, consumer) DO NOTHING`

	countDelivery = `
UPDATE processed SET deliveries = deliveries + 1 WHERE event_id = $1 AND consumer = $2`
)

// Handle is a bus.Handler. Nil means that the message can be acknowledged: its effect
// is committed, now or earlier, or it is a dead letter. An error means that neither is
// certain, and the broker has to deliver it again.
func (o *Once) Handle(ctx context.Context, m bus.Message) error {
	began := time.Now()
	id, ok := parseID(m.ID)
	if !ok {
		unnamed := fmt.Errorf("%w: its id is no UUID", ErrUnreadable)
		return o.acknowledge(ctx, m, o.bury(ctx, m, letter{reason: unnamed, began: began}))
	}
	if err := o.Steps.Reach(ctx, checkpoint.BeforeEffect, m.ID); err != nil {
		return o.acknowledge(ctx, m, err)
	}
	fresh := false
	n, err := o.insist(ctx, func(ctx context.Context) (err error) {
		fresh, err = o.once(ctx, id, m)
		return err
	})
	var failed *failure
	switch {
	case errors.As(err, &failed):
		err = o.bury(ctx, m, letter{id: id, reason: failed.cause, attempts: n, began: began})
	case err == nil && fresh:
		err = o.Steps.Reach(ctx, checkpoint.AfterEffect, m.ID)
	}
	return o.acknowledge(ctx, m, err)
}

// parseID reads the id of an event. pgtype also takes other characters for hyphens,
// which PostgreSQL, to which an effect may hand the text, does not.
func parseID(text string) (id pgtype.UUID, ok bool) {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	err := id.Scan(text)
	return id, err == nil && plain(text) == plain(id.String())
}

// acknowledge says that all is done but the acknowledgement, unless it is not.
func (o *Once) acknowledge(ctx context.Context, m bus.Message, err error) error {
	if err == nil {
		err = o.Steps.Reach(ctx, checkpoint.BeforeAck, m.ID)
	}
	if err != nil {
		return fmt.Errorf("inbox: message %q: %w", m.ID, err)
	}
	return nil
}

// insist makes attempts until one succeeds. Its error is a *failure when the message
// is to be given up; all others leave it to the next delivery.
func (o *Once) insist(ctx context.Context, attempt func(context.Context) error) (n int, err error) {
	c := o.Config.withDefaults()
	for n = 1; ; n++ {
		err = within(ctx, c.Timeout, attempt)
		var failed *failure
		switch {
		case err == nil:
			return n, nil
		case ctx.Err() != nil: // the subscription ends: no verdict on the message
			return n, ctx.Err()
		case !errors.As(err, &failed):
			bus.Pause(ctx, c.MaxDelay) // so that an outage costs few deliveries
			return n, err
		case n >= c.Attempts, errors.Is(err, ErrUnreadable):
			return n, err
		}
		if !bus.Pause(ctx, c.delay(n)) {
			return n, ctx.Err()
		}
	}
}

func within(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}

// once is one attempt. fresh says that the effect happened now.
func (o *Once) once(ctx context.Context, id pgtype.UUID, m bus.Message) (fresh bool, err error) {
	err = o.transact(ctx, func(tx pgx.Tx) error {
		fresh, err = o.record(ctx, tx, id)
		if err != nil || !fresh {
			return err
		}
		return o.act(ctx, tx, m)
	})
	return fresh, err
}

// record writes the delivery down. False: it was there, and now counts one more.
func (o *Once) record(ctx context.Context, tx pgx.Tx, id pgtype.UUID) (fresh bool, err error) {
	tag, err := tx.Exec(ctx, recordDelivery, id, o.Consumer, o.Bus)
	if err != nil || tag.RowsAffected() == 1 {
		return err == nil, err
	}
	_, err = tx.Exec(ctx, countDelivery, id, o.Consumer)
	return false, err
}

// act runs the effect; its error spends an attempt unless the database is to blame.
func (o *Once) act(ctx context.Context, tx pgx.Tx, m bus.Message) error {
	err := guarded(func() error { return o.Effect(ctx, tx, m) })
	if err != nil {
		return blame(ctx, tx, err)
	}
	return nil
}

// transact is pgx.BeginFunc that tells a COMMIT's error from others.
func (o *Once) transact(ctx context.Context, f func(pgx.Tx) error) error {
	tx, err := o.DB.Begin(ctx)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		rollBack(ctx, tx)
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return blameCommit(err)
	}
	return nil
}

// rollbackLimit bounds what an attempt may take beyond Config.Timeout.
const rollbackLimit = time.Second

// rollBack gives the connection back whatever ctx says. Where no answer comes pgx
// drops the connection instead, and the server the transaction with it.
func rollBack(ctx context.Context, tx pgx.Tx) {
	_ = within(context.WithoutCancel(ctx), rollbackLimit, tx.Rollback)
}

func (o *Once) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}
