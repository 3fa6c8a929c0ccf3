package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
)

// work publishes the items of one stream. It belongs to one goroutine.
type work struct {
	*Relay
	stream   *stream
	unmarked []string // published events whose transaction is not over
	trouble  int      // failed publishes in a row
}

// run takes batch after batch.
func (w *work) run(ctx context.Context) error {
	for {
		batch, err := w.take(ctx)
		if err != nil {
			return err
		}
		for len(batch) > 0 {
			if batch, err = w.mark(ctx, batch); err != nil {
				return err
			}
			if len(batch) == 0 {
				break
			}
			if ctx.Err() != nil {
				return errStopped
			}
			if wait := w.publish(ctx, pending(batch)); wait > 0 {
				// What is published so far is confirmed before the wait.
				if batch, err = w.mark(ctx, batch); err != nil {
					return err
				}
				if len(batch) > 0 && !bus.PauseUntil(ctx, w.stream.failed, wait) {
					return errStopped
				}
			}
		}
	}
}

// publish tries once: all that is left, or the first one alone while there is trouble.
// It returns how long to wait before the next try; 0 is at once.
func (w *work) publish(ctx context.Context, left []*item) time.Duration {
	if w.trouble > 0 {
		left = left[:1]
	}
	outcomes := w.send(ctx, left)
	var parked []refusal
	var wait time.Duration
	probe := false
	for i, err := range outcomes {
		if err == nil {
			left[i].done = true
			continue
		}
		d := w.cfg.Policy.Decide(outbox.Failure{Class: bus.Classify(err), Attempts: left[i].tries, Alone: len(left) == 1})
		switch d.Fate {
		case outbox.Parked:
			parked = append(parked, refusal{item: left[i], why: err, attempts: left[i].tries + 1})
		case outbox.Retried:
			left[i].tries++
			wait = max(wait, d.Delay)
		}
		probe = probe || d.Probe
	}
	w.note(probe, outcomes)
	if err := w.park(ctx, parked); err != nil {
		w.cfg.Log.WarnContext(ctx, "cdc: a refused event could not be written down", "error", err)
		probe = true // it is refused again after the wait
		w.trouble = max(w.trouble, 1)
	}
	if probe {
		wait = max(wait, w.cfg.Probe.Delay(w.trouble))
	}
	return wait
}

// note begins, goes on with or ends the probing.
func (w *work) note(probe bool, outcomes []error) {
	before := w.trouble
	if w.trouble++; !probe {
		w.trouble = 0
	}
	switch {
	case probe && before == 0:
		w.cfg.Log.Warn("cdc: the bus is in trouble, probing", "error", errors.Join(outcomes...))
	case !probe && before > 0:
		w.cfg.Log.Info("cdc: the bus is back", "after", before)
	}
}

// send publishes and returns what came of each. A publish is not cut short when ctx
// ends: broken off it may have arrived, and would have to be repeated.
func (w *work) send(ctx context.Context, left []*item) []error {
	outcomes := make([]error, len(left))
	msgs, at := make([]bus.Message, 0, len(left)), make([]int, 0, len(left))
	for i, it := range left {
		if err := w.cfg.Steps.Reach(ctx, checkpoint.BeforePublish, it.msg.ID); err != nil {
			outcomes[i] = fmt.Errorf("%w: %w", bus.ErrUnavailable, err) // it certainly was not sent
			continue
		}
		msgs, at = append(msgs, it.msg), append(at, i)
	}
	if len(msgs) == 0 {
		return outcomes
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.PublishTimeout)
	defer cancel()
	err := w.bus.Publish(bounded, msgs...)
	for n, i := range at {
		if outcomes[i] = bus.Outcome(err, n); outcomes[i] == nil {
			outcomes[i] = w.cfg.Steps.Reach(ctx, checkpoint.AfterPublish, left[i].msg.ID)
		}
	}
	return outcomes
}
