package lab

import (
	"context"
	"fmt"
	"slices"

	"outboxplayground/core/checkpoint"
)

func (r *run) step(label string, at checkpoint.Name) func(Line) bool {
	return func(l Line) bool {
		return l.Label == label && l.Step == string(at) && l.EventID == r.target()
	}
}

// reached returns a count for when the journal is complete: 1 when the target has
// reached a step in a role, else 0.
func (r *run) reached(label string, at checkpoint.Name) func() int {
	return func() int {
		if slices.ContainsFunc(r.journal.all(), r.step(label, at)) {
			return 1
		}
		return 0
	}
}

// reachedInOutage returns a count for when the journal is complete: the affected
// events that reached a step while the network was broken.
func (r *run) reachedInOutage(at checkpoint.Name) func() int {
	return func() int {
		affected, hit := map[string]bool{}, map[string]bool{}
		for _, id := range r.ids[r.span.from-1 : r.span.to] {
			affected[id] = true
		}
		o := r.outages[len(r.outages)-1]
		for _, l := range r.journal.all() {
			during := !l.At.Before(o.begin) && l.At.Before(o.end)
			if l.Step == string(at) && affected[l.EventID] && during {
				hit[l.EventID] = true
			}
		}
		return len(hit)
	}
}

// countHits says how often the fault has hit, once the children have told all they
// had to tell. A network fault that touched no connection has not hit, whatever
// the events went through.
func (r *run) countHits(ctx context.Context) int {
	if r.hits == nil || r.allTold(ctx) != nil {
		return 0
	}
	if len(r.outages) > 0 && r.report.Network == 0 {
		return 0
	}
	return r.hits()
}

// allTold waits until all that the children have written so far is read: each is
// asked for an echo, which comes after everything else.
func (r *run) allTold(ctx context.Context) error {
	for i, p := range r.procs {
		echo := fmt.Sprintf("echo-%d-%d", i, len(r.journal.all()))
		if p.over() || p.tell(order{Echo: echo}) != nil {
			select {
			case <-p.ended:
				continue
			case <-ctx.Done(): // it hears nothing and lives: the clean-up will end it
				return ctx.Err()
			}
		}
		_, _, err := r.journal.await(ctx, p.ended, 0, func(l Line) bool { return l.Step == sayEcho && l.Text == echo })
		if err != nil && !p.over() {
			return err
		}
	}
	return nil
}
