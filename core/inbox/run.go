package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
)

const (
	findRequested = `
SELECT id FROM dead_letters
WHERE status = 'requested' AND id > $1 AND consumer = $2 AND bus = $3 ORDER BY id LIMIT 1`

	// SKIP LOCKED: another process is at it.
	lockRequested = `
SELECT coalesce(event_id::text, message_id), topic, key, payload, headers FROM dead_letters
WHERE id = $1 AND status = 'requested' FOR UPDATE SKIP LOCKED`

	markReplayed = `
WITH letter AS (
	UPDATE dead_letters SET status = 'replayed', attempts = attempts + $2
	WHERE id = $1 RETURNING event_id, consumer),
asked AS (
	UPDATE replays SET outcome = 'replayed', ended_at = clock_timestamp()
	WHERE dead_letter = $1 AND outcome IS NULL)
UPDATE processed p SET at = clock_timestamp() FROM letter l
WHERE p.event_id = l.event_id AND p.consumer = l.consumer`

	markDeadAgain = `
WITH letter AS (
	UPDATE dead_letters SET status = 'dead', attempts = attempts + $2, reason = $3,
		failed_at = clock_timestamp()
	WHERE id = $1 AND status = 'requested' RETURNING id)
UPDATE replays SET outcome = 'dead', ended_at = clock_timestamp()
WHERE dead_letter = (SELECT id FROM letter) AND outcome IS NULL`
)

// Run handles the dead letters that somebody asked to replay, until ctx ends. It
// belongs beside the subscription: there the effect finds what it needs. When a
// process dies in the middle, another Run goes on: the request stays in its row.
func (o *Once) Run(ctx context.Context) error {
	c := o.Config.withDefaults()
	tick := time.NewTicker(c.Poll)
	defer tick.Stop()
	for {
		if err := o.Replays(ctx); err != nil && ctx.Err() == nil {
			o.log().WarnContext(ctx, "replay failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Replays goes once through the replays that are asked for now. One that cannot be
// brought to an end holds up none behind it: it stays requested, and the error is that
// of the first such letter. When the database is away the rest is left as it is.
func (o *Once) Replays(ctx context.Context) error {
	var failed error
	for id := int64(0); ; {
		err := o.briefly(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, findRequested, id, o.Consumer, o.Bus).Scan(&id)
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return failed
		case err != nil:
			return errors.Join(failed, fmt.Errorf("inbox: replays after dead letter %d: %w", id, err))
		}
		if err := o.replay(ctx, id); err != nil && failed == nil {
			failed = fmt.Errorf("inbox: dead letter %d: %w", id, err)
		}
	}
}

// briefly is a transaction within the time of an attempt.
func (o *Once) briefly(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	return within(ctx, o.Config.withDefaults().Timeout, func(ctx context.Context) error {
		return o.transact(ctx, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// replay handles one dead letter as a delivery is handled.
func (o *Once) replay(ctx context.Context, id int64) error {
	tries := 0
	n, err := o.insist(ctx, func(ctx context.Context) error {
		tries++
		return o.again(ctx, id, tries)
	})
	var failed *failure
	if !errors.As(err, &failed) {
		return err
	}
	reason := legible(failed.Error(), longestReason)
	o.log().WarnContext(ctx, "replay failed, the message stays dead", "dead_letter", id, "reason", reason)
	return o.briefly(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, markDeadAgain, id, n, reason)
		return err
	})
}

// again is one attempt at a dead letter. Its row in processed is there already and
// keeps deliveries away; here the letter's own row is what lets one attempt through,
// and its change of state is committed with the effect.
func (o *Once) again(ctx context.Context, id int64, tries int) error {
	return o.transact(ctx, func(tx pgx.Tx) error {
		var m bus.Message
		row := tx.QueryRow(ctx, lockRequested, id)
		err := row.Scan(&m.ID, &m.Topic, &m.Key, &m.Payload, &m.Headers)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := o.act(ctx, tx, m); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, markReplayed, id, tries)
		return err
	})
}
