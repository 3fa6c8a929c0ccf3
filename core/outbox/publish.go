package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// published is a claim after its publish: what the broker said of each row, and
// what the lane makes of it.
type published struct {
	claimed
	outcomes    []error // in the order of rows; nil: the broker has it
	decisions   []Decision
	unavailable bool // at least one row never reached the broker
	slowDown    bool // at least one row shall be tried again later
	undated     bool // and one of them at any time
	probing     bool
	next        time.Duration
}

// publish sends a claim's rows, pipelined, and decides what becomes of them.
func (r *Relay) publish(ctx context.Context, c claimed) published {
	p := published{claimed: c, outcomes: r.send(ctx, c.rows), decisions: make([]Decision, len(c.rows))}
	probe, partly := false, slices.Contains(p.outcomes, nil)
	for i, err := range p.outcomes {
		if err == nil {
			continue
		}
		f := Failure{Class: bus.Classify(err), Attempts: c.rows[i].Attempts, Alone: len(c.rows) == 1, Partly: partly}
		d := r.cfg.Policy.Decide(f)
		p.decisions[i] = d
		p.unavailable = p.unavailable || f.Class == bus.Unavailable
		p.slowDown = p.slowDown || d.Fate != Parked
		p.undated = p.undated || d.Fate != Parked && d.Delay == 0
		probe = probe || d.Probe
	}
	r.setTrouble(probe, p.outcomes)
	p.probing = r.lane.trouble > 0
	switch {
	case p.probing:
		p.next = r.cfg.Probe.Delay(r.lane.trouble)
	case !c.full || p.undated:
		p.next = r.cfg.Poll
	}
	return p
}

// setTrouble begins, goes on with or ends the probing. It ends at the first answer
// of the broker; the next claim then begins with the oldest row.
func (r *Relay) setTrouble(probe bool, outcomes []error) {
	before := r.lane.trouble
	r.lane.trouble++
	if !probe {
		r.lane.trouble = 0
	}
	r.counts.trouble.Store(int64(r.lane.trouble))
	switch {
	case probe && before == 0:
		r.lane.probed = 0
		r.cfg.Log.Warn("outbox: the bus is in trouble, probing", "error", first(outcomes))
	case !probe && before > 0:
		r.lane.sweepNext()
		r.cfg.Log.Info("outbox: the bus is back", "after", before)
	}
}

func first(outcomes []error) error {
	for _, err := range outcomes {
		if err != nil {
			return err
		}
	}
	return nil
}

// send publishes the rows and returns what came of each. A publish is not cut short
// when ctx ends: broken off it may have arrived, and would have to be repeated.
func (r *Relay) send(ctx context.Context, rows []Entry) []error {
	outcomes := make([]error, len(rows))
	msgs, at := make([]bus.Message, 0, len(rows)), make([]int, 0, len(rows))
	for i := range rows {
		if err := r.cfg.Steps.Reach(ctx, checkpoint.BeforePublish, rows[i].Message.ID); err != nil {
			outcomes[i] = fmt.Errorf("%w: %w", bus.ErrUnavailable, err) // it certainly was not sent
			continue
		}
		msgs, at = append(msgs, rows[i].Message), append(at, i)
	}
	if len(msgs) == 0 {
		return outcomes
	}
	err := r.publishAll(ctx, msgs)
	for n, i := range at {
		if outcomes[i] = bus.Outcome(err, n); outcomes[i] == nil {
			outcomes[i] = r.cfg.Steps.Reach(ctx, checkpoint.AfterPublish, rows[i].Message.ID)
		}
	}
	return outcomes
}

func (r *Relay) publishAll(ctx context.Context, msgs []bus.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.PublishTimeout)
	defer cancel()
	return r.bus.Publish(ctx, msgs...)
}

// stale tells whether a claim that was made ahead has been lying here for so long that
// its lease may be over before its publish is. Looking narrows the gap and cannot close
// it: who is stopped right after this line publishes all the same.
func (r *Relay) stale(c claimed) bool {
	t := term(r.cfg.Queue)
	return t > 0 && time.Since(c.at) > t/2
}

// legible makes an error fit for a TEXT column, which takes neither NUL nor broken
// UTF-8, and short enough to read in a list.
func legible(err error) string {
	said := text(err.Error())
	if runes := []rune(said); len(runes) > 500 {
		said = string(runes[:500])
	}
	return said
}

func text(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?") }
