package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// claimed is what one claim brought.
type claimed struct {
	rows []Entry
	full bool      // there may be more
	idle bool      // nothing of the bus is pending, and who writes will say so
	at   time.Time // before the lease began
	took time.Duration
	from int64 // only rows with a higher id were looked for
	err  error
}

// Serialization failures and deadlocks are the database's way to say "once more".
const (
	claimTries = 5
	claimPause = 10 * time.Millisecond
)

// claim takes rows, and reports each of them, or that there was none. It is not cut
// short when ctx ends: rows that are leased to nobody would have to wait.
func (r *Relay) claim(ctx context.Context, w Want) claimed {
	c := claimed{at: time.Now(), from: w.After}
	for try := 1; ; try++ {
		c.rows, c.idle, c.err = r.claimOnce(ctx, w)
		if !again(c.err) || try == claimTries || ctx.Err() != nil {
			break
		}
		r.counts.claimRetries.Add(1)
		bus.Pause(ctx, Backoff{Base: claimPause, Jitter: 0.5}.Delay(try))
	}
	c.full, c.took = len(c.rows) == w.Limit, time.Since(c.at)
	if c.err != nil {
		c.err = fmt.Errorf("outbox: claim: %w", c.err)
		return c
	}
	c.err = r.reachClaimed(ctx, c.rows)
	return c
}

// Isolation, whatever the database's default: a claim must see what the one before it
// has committed, although it had to wait for that one after it began.
//
// No wait for the disk: a claim that the server forgets in a crash is rows that are sent
// once more, which every consumer has to expect anyway. What is written down after a
// publish does wait, and takes the claim to the disk with it (PostgreSQL manual,
// "Asynchronous Commit").
const claimSettings = `
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL synchronous_commit = off`

// claiming begins the transaction of a claim: a pool in one round trip, what has only
// Begin in two.
type claiming struct{ db DB }

func (c claiming) Begin(ctx context.Context) (pgx.Tx, error) {
	type pool interface {
		BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
	}
	if p, ok := c.db.(pool); ok {
		return p.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN;" + claimSettings})
	}
	tx, err := c.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, claimSettings); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return tx, nil
}

func (r *Relay) claimOnce(ctx context.Context, w Want) (rows []Entry, idle bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, claiming{r.db}, func(tx pgx.Tx) error {
		if r.cfg.Gate != nil {
			if open, err := r.cfg.Gate(ctx, tx); err != nil || !open {
				return err
			}
		}
		if rows, err = r.cfg.Queue.Claim(ctx, tx, w); err != nil || len(rows) > 0 {
			return err
		}
		idle, err = r.idle(ctx, tx, w)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return rows, idle, nil
}

// Written like the claims, whose index and whose enable_sort it shares: it reads one
// entry, however many rows there are.
const anyPending = `
SELECT id FROM outbox
WHERE status = 'pending' AND (bus, id) > ($1, 0) AND bus <= $1
ORDER BY bus, id
LIMIT 1`

// idle tells, after a claim that looked everywhere and found nothing, whether there is
// nothing but to wait for a notification. The order matters: a row that this
// snapshot does not show is committed later, hence notified to whoever listens now.
func (r *Relay) idle(ctx context.Context, tx pgx.Tx, w Want) (bool, error) {
	if r.cfg.Waker == nil || w.After > 0 || !r.cfg.Waker.Hears() {
		return false, nil
	}
	var id int64
	err := tx.QueryRow(ctx, anyPending, w.Bus).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	return false, err
}

func (r *Relay) reachClaimed(ctx context.Context, rows []Entry) error {
	if len(rows) == 0 {
		return r.cfg.Steps.Reach(ctx, checkpoint.Claimed, "")
	}
	for i := range rows {
		if err := r.cfg.Steps.Reach(ctx, checkpoint.Claimed, rows[i].Message.ID); err != nil {
			return err
		}
	}
	return nil
}

// landed takes note of a claim in the lane.
func (r *Relay) landed(c claimed) {
	if c.from == 0 {
		r.lane.sweepTook = c.took // also where that was too long: not at once again
	}
	if c.err != nil {
		r.databaseFailed(c.err)
		if c.took < claimTimeout {
			r.lane.sweepNext() // what it may have claimed is behind the cursor
		}
		return
	}
	r.lane.dbErrors, r.lane.claimed = 0, c.at
	r.lane.look(c.rows)
	r.lane.advance(c.rows, c.full)
	r.lane.take(c.rows, c.at)
	if len(c.rows) > 0 {
		r.counts.claims.Add(1)
		r.counts.claimed.Add(int64(len(c.rows)))
	}
}

// giveBack releases rows that are not going to be published. Where that fails they
// are free when the lease ends.
func (r *Relay) giveBack(ctx context.Context, rows []Entry) {
	if len(rows) == 0 {
		return
	}
	r.lane.drop(rows)
	r.lane.sweepNext()
	r.counts.released.Add(int64(len(rows)))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.cfg.Queue.Release(ctx, r.db, rows); err != nil {
		r.cfg.Log.WarnContext(ctx, "outbox: rows not given back", "rows", len(rows), "error", err)
	}
}

// databaseFailed counts an error of the database, or of a step.
func (r *Relay) databaseFailed(err error) {
	r.lane.dbErrors++
	r.counts.dbErrors.Add(1)
	r.cfg.Log.Warn("outbox: database", "in_a_row", r.lane.dbErrors, "error", err)
}

// again recognises serialization_failure and deadlock_detected.
func again(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (said.Code == "40001" || said.Code == "40P01")
}
