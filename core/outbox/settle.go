package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// settled is what was written down of a claim.
type settled struct {
	rows      []Entry // no longer in hand
	plan      Settlement
	conflicts int
	err       error
}

// settle writes down what became of a claim's rows. It tries again while the
// database is away, at most tries times (0: until ctx ends, and once after that):
// what the broker said is worth keeping.
func (r *Relay) settle(ctx context.Context, p published, tries int) settled {
	plan, stepErr := r.plan(ctx, p)
	s := settled{rows: p.rows, plan: plan}
	for try := 1; ; try++ {
		s.conflicts, s.err = r.settleOnce(ctx, plan)
		if s.err == nil {
			break
		}
		if try == tries || refused(s.err) || ctx.Err() != nil {
			s.err = errors.Join(stepErr, fmt.Errorf("outbox: settle: %w", s.err))
			return s
		}
		r.counts.dbErrors.Add(1)
		bus.Pause(ctx, r.cfg.Probe.Delay(try))
	}
	s.err = errors.Join(stepErr, r.reachMarked(ctx, plan.Sent))
	return s
}

func (r *Relay) settleOnce(ctx context.Context, plan Settlement) (int, error) {
	if plan.rows() == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return r.cfg.Queue.Settle(ctx, r.db, plan)
}

// plan sorts the rows by fate. A row that fails at before-mark is left out: nothing
// is written down of it.
func (r *Relay) plan(ctx context.Context, p published) (s Settlement, failed error) {
	s.Token, s.Sent = p.rows[0].Token, make([]Entry, 0, len(p.rows))
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

// absorb takes note of a settlement in the lane.
func (r *Relay) absorb(s settled) {
	r.lane.drop(s.rows)
	if s.err != nil {
		r.databaseFailed(s.err)
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
