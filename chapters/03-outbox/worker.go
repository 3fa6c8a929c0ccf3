package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop"
)

// Worker is the worker of the article, naked. One runs for each bus, so that a broker
// which is down delays only its own rows.
type Worker struct {
	DB      shop.DB
	Bus     bus.Bus
	BusName string
	Steps   *checkpoint.Steps
	// Gate is asked in the claim's transaction whether claiming is allowed now;
	// nil is always.
	Gate func(ctx context.Context, tx pgx.Tx) (bool, error)
	Log  *slog.Logger
}

// The article's numbers.
const (
	pollInterval   = 500 * time.Millisecond
	publishTimeout = 5 * time.Second
	markTimeout    = 5 * time.Second
)

// FOR UPDATE locks the rows, SKIP LOCKED passes over those of another worker
// without waiting. status is a literal: as $1 it would hide from the planner that
// the partial index fits.
const claimRows = `
SELECT id, event_id::text, topic, payload
FROM outbox
WHERE status = 'pending' AND bus = $1 AND attempts < 5
ORDER BY id
LIMIT 100
FOR UPDATE SKIP LOCKED`

// A row that another worker has marked meanwhile stays as it is.
const markSent = `
UPDATE outbox SET status = 'sent', sent_at = clock_timestamp()
WHERE id = $1 AND status = 'pending'`

// The fifth failure parks the row. Nobody looks at it again until a person does.
const markAttempt = `
UPDATE outbox SET attempts = attempts + 1, last_error = $2,
	status = CASE WHEN attempts + 1 >= 5 THEN 'failed' ELSE 'pending' END
WHERE id = $1 AND status = 'pending'`

type row struct {
	id  int64
	msg bus.Message
}

// Run polls at once, then every 500 ms, until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if _, err := w.Step(ctx); err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "poll failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Step claims up to 100 rows and sends them one by one. It says how many rows it
// claimed.
func (w *Worker) Step(ctx context.Context) (int, error) {
	rows, err := w.claim(ctx)
	if err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	for _, r := range rows {
		if ctx.Err() != nil {
			break // stopping: the rest is still pending, for whoever comes next
		}
		if err := w.send(ctx, r); err != nil {
			return len(rows), fmt.Errorf("event %s: %w", r.msg.ID, err)
		}
	}
	return len(rows), nil
}

// claim locks rows, reads them, and ends the transaction at once, so that no lock
// is held while the broker is slow. From then on only this process's memory knows
// that the rows are being sent: a second worker may take them too.
func (w *Worker) claim(ctx context.Context) (claimed []row, err error) {
	err = pgx.BeginFunc(ctx, w.DB, func(tx pgx.Tx) error {
		if w.Gate != nil {
			if open, err := w.Gate(ctx, tx); err != nil || !open {
				return err
			}
		}
		found, err := tx.Query(ctx, claimRows, w.BusName)
		if err != nil {
			return err
		}
		claimed, err = pgx.CollectRows(found, scan)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claimed, w.reachClaimed(ctx, claimed)
}

// reachClaimed reports each row, and a claim that found none as well.
func (w *Worker) reachClaimed(ctx context.Context, claimed []row) error {
	if len(claimed) == 0 {
		return w.Steps.Reach(ctx, checkpoint.Claimed, "")
	}
	for _, r := range claimed {
		if err := w.Steps.Reach(ctx, checkpoint.Claimed, r.msg.ID); err != nil {
			return err
		}
	}
	return nil
}

func scan(found pgx.CollectableRow) (r row, err error) {
	err = found.Scan(&r.id, &r.msg.ID, &r.msg.Topic, &r.msg.Payload)
	return r, err
}

// send publishes one row and writes down what came of it. Between the two lies
// the gap that no worker can close: who dies there will send the event again.
func (w *Worker) send(ctx context.Context, r row) error {
	failure := w.publish(ctx, r.msg)
	if err := w.Steps.Reach(ctx, checkpoint.BeforeMark, r.msg.ID); err != nil {
		return err
	}
	// Whatever ends ctx now, what the broker said is worth keeping.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if failure != nil {
		_, err := w.DB.Exec(ctx, markAttempt, r.id, legible(failure))
		return err
	}
	if _, err := w.DB.Exec(ctx, markSent, r.id); err != nil {
		return err
	}
	return w.Steps.Reach(ctx, checkpoint.AfterMark, r.msg.ID)
}

func (w *Worker) publish(ctx context.Context, m bus.Message) error {
	if err := w.Steps.Reach(ctx, checkpoint.BeforePublish, m.ID); err != nil {
		return err
	}
	// Not cut short when the worker is told to stop: a publish that is broken off
	// may have arrived, and would cost the row an attempt.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	if err := w.Bus.Publish(ctx, m); err != nil {
		return err
	}
	return w.Steps.Reach(ctx, checkpoint.AfterPublish, m.ID)
}

// legible makes an error fit for a TEXT column, which takes neither NUL nor
// broken UTF-8, and short enough to read in a list.
func legible(err error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?")
	if runes := []rune(text); len(runes) > 500 {
		text = string(runes[:500])
	}
	return text
}
