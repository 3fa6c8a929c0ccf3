package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// settled is what was written down in one statement, or one transaction.
type settled struct {
	rows      []Entry // no longer in hand
	plan      Settlement
	written   bool
	conflicts int
	err       error // of the database, or of a step
}

// settle writes down what became of the rows of some claims. Neighbours of which all
// was sent share one statement, which costs little more than that of one.
func (r *Relay) settle(ctx context.Context, claims []published, tries int) (all []settled) {
	for _, p := range claims {
		plan, err := r.plan(ctx, p)
		if n := len(all) - 1; n >= 0 && plan.plain() && all[n].plan.plain() {
			all[n].rows = append(all[n].rows, p.rows...)
			all[n].plan.Sent = append(all[n].plan.Sent, plan.Sent...)
			continue
		}
		all = append(all, settled{rows: p.rows, plan: plan, err: err})
	}
	finishing, cancel := grace(ctx, settleTimeout)
	defer cancel()
	for i := range all {
		r.write(ctx, finishing, &all[i], tries)
	}
	return all
}

// grace is for what has to be finished: it ends d after ctx does.
func grace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	finishing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		bus.Pause(finishing, d)
		cancel()
	})
	return finishing, func() { stop(); cancel() }
}

// write carries out one settlement. It tries again while the database is away, at most
// tries times (0: until ctx ends, and once after that): what the broker said is worth
// keeping.
func (r *Relay) write(ctx, finishing context.Context, s *settled, tries int) {
	for try := 1; ; try++ {
		var err error
		if s.conflicts, err = r.settleOnce(finishing, s.plan); err == nil {
			break
		}
		if try == tries || refused(err) || ctx.Err() != nil {
			s.err = errors.Join(s.err, fmt.Errorf("outbox: settle: %w", err))
			return
		}
		r.counts.dbErrors.Add(1)
		bus.Pause(ctx, r.cfg.Probe.Delay(try))
	}
	s.written = true
	s.err = errors.Join(s.err, r.reachMarked(ctx, s.plan.Sent))
}

func (r *Relay) settleOnce(ctx context.Context, plan Settlement) (int, error) {
	if plan.rows() == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return r.cfg.Queue.Settle(ctx, r.db, plan)
}

// plan sorts the rows by fate. A row that fails at before-mark is left out: nothing
// is written down of it.
func (r *Relay) plan(ctx context.Context, p published) (s Settlement, failed error) {
	s.Sent = make([]Entry, 0, len(p.rows))
	for i, e := range p.rows {
		if err := r.cfg.Steps.Reach(ctx, checkpoint.BeforeMark, e.Message.ID); err != nil {
			failed, s.Partial = errors.Join(failed, err), true
			continue
		}
		if p.outcomes[i] == nil {
			s.Sent = append(s.Sent, e)
			continue
		}
		d := p.decisions[i]
		m := Mark{Entry: e, Error: legible(p.outcomes[i]), Delay: d.Delay}
		switch d.Fate {
		case Parked:
			s.Parked = append(s.Parked, m)
		case Retried:
			s.Retried = append(s.Retried, m)
		default:
			s.Deferred = append(s.Deferred, m)
		}
	}
	return s, failed
}

func (r *Relay) reachMarked(ctx context.Context, sent []Entry) (failed error) {
	for i := range sent {
		if err := r.cfg.Steps.Reach(ctx, checkpoint.AfterMark, sent[i].Message.ID); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// absorb takes note of settlements in the lane.
func (r *Relay) absorb(all []settled) {
	for _, s := range all {
		r.note(s)
	}
}

func (r *Relay) note(s settled) {
	r.lane.drop(s.rows)
	if s.err != nil {
		r.databaseFailed(s.err)
		r.lane.sweepNext() // its rows are behind the cursor
	}
	if !s.written {
		return
	}
	c := &r.counts
	c.sent.Add(int64(len(s.plan.Sent)))
	c.retried.Add(int64(len(s.plan.Retried)))
	c.parked.Add(int64(len(s.plan.Parked)))
	c.deferred.Add(int64(len(s.plan.Deferred)))
	c.conflicts.Add(int64(s.conflicts))
	if s.conflicts > 0 {
		r.cfg.Log.Warn("outbox: rows were somebody else's by then", "conflicts", s.conflicts)
	}
}

// result tells a cycle's story.
func (p published) result(s settled) Result {
	return Result{
		Claimed: len(p.rows), Sent: len(s.plan.Sent), Retried: len(s.plan.Retried),
		Parked: len(s.plan.Parked), Deferred: len(s.plan.Deferred), Conflicts: s.conflicts,
		Unavailable: p.unavailable, Probing: p.probing, Next: p.next,
	}
}

// refused tells a statement that the database will not carry out from one that it
// could not: connections lost, shutting down, out of resources, try again.
func refused(err error) bool {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return false
	}
	for _, class := range []string{"08", "40", "53", "57"} {
		if strings.HasPrefix(said.Code, class) {
			return false
		}
	}
	return true
}
