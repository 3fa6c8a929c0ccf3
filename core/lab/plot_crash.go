package lab

import (
	"context"
	"fmt"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/pg"
)

func plotCrashBeforeCommit(ctx context.Context, r *run) error {
	return r.crash(ctx, Producing, checkpoint.BeforeCommit)
}

func plotCrashAfterCommit(ctx context.Context, r *run) error {
	return r.crash(ctx, Producing, checkpoint.AfterCommit)
}

func plotCrashAfterPublish(ctx context.Context, r *run) error {
	return r.crash(ctx, r.publisher(), checkpoint.AfterPublish)
}

func plotRelayKilled(ctx context.Context, r *run) error {
	return r.crash(ctx, Relaying, checkpoint.Claimed)
}

func plotCrashAfterMark(ctx context.Context, r *run) error {
	return r.crash(ctx, Relaying, checkpoint.AfterMark)
}

// crash lets a role be killed when the target reaches a step, starts it again and
// goes on.
func (r *run) crash(ctx context.Context, label string, at checkpoint.Name) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.quietMemory(ctx, at); err != nil {
		return err
	}
	if err := r.arm(ctx, label, at, doCrash); err != nil {
		return err
	}
	victim := r.find(label)
	if err := r.placeTo(ctx, r.span.from); err != nil {
		return err
	}
	if err := r.awaitDeath(ctx, victim, label, at); err != nil {
		return err
	}
	return r.goOn(ctx)
}

// quietMemory makes a crash in memory deterministic, where one process has all
// roles: the consumer waits in front of the target's effect, and before a crash of
// the producer the relay claims nothing.
func (r *run) quietMemory(ctx context.Context, at checkpoint.Name) error {
	if !r.memory() {
		return nil
	}
	if at == checkpoint.BeforeCommit || at == checkpoint.AfterCommit {
		if err := pg.Pause(ctx, r.pool, r.schema, true); err != nil {
			return err
		}
	}
	return r.arm(ctx, Consuming, checkpoint.BeforeEffect, doHold)
}

// goOn restarts what is dead and places the rest.
func (r *run) goOn(ctx context.Context) error {
	if r.memory() {
		if err := pg.Pause(ctx, r.pool, r.schema, false); err != nil {
			return err
		}
	}
	if r.variant.DedupeWindow > 0 && !bus.Pause(ctx, 5*r.variant.DedupeWindow) {
		return ctx.Err() // the broker shall have forgotten the id by now
	}
	if err := r.startChildren(ctx); err != nil {
		return err
	}
	return r.placeTo(ctx, r.spec.Orders)
}

func plotConsumerCrash(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if r.memory() {
		if err := r.arm(ctx, Consuming, checkpoint.BeforeEffect, doHold); err != nil {
			return err
		}
	}
	if err := r.arm(ctx, Consuming, checkpoint.AfterEffect, doCrash); err != nil {
		return err
	}
	victim := r.find(Consuming)
	if err := r.placeTo(ctx, r.span.from); err != nil {
		return err
	}
	if r.memory() {
		if err := r.awaitSent(ctx); err != nil {
			return err
		}
		if err := r.release(Consuming, checkpoint.BeforeEffect); err != nil {
			return err
		}
	}
	if err := r.awaitDeath(ctx, victim, Consuming, checkpoint.AfterEffect); err != nil {
		return err
	}
	return r.goOn(ctx)
}

// awaitDeath waits until the victim is dead by SIGKILL, at the step it should be.
func (r *run) awaitDeath(ctx context.Context, victim *process, label string, at checkpoint.Name) error {
	select {
	case <-victim.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !victim.killed() {
		return fmt.Errorf("%s ended, but not by SIGKILL: %s", label, firstLine(victim.complaint()))
	}
	victim.struck = true
	r.journal.add(Line{At: time.Now(), Label: label, Step: sayKilled, EventID: r.target(), Text: "SIGKILL, no further statement ran"})
	r.hits = r.reached(label, at)
	return nil
}

// awaitSent waits until the target's order is committed and its row, if any, sent.
func (r *run) awaitSent(ctx context.Context) error {
	if r.chapter.Log {
		return r.awaitPassed(ctx)
	}
	sql := `SELECT count(*) FROM orders WHERE event_id = $1`
	if r.chapter.Outbox {
		sql = `SELECT count(*) FROM outbox WHERE event_id = $1 AND status = 'sent'`
	}
	return poll(ctx, func() (bool, error) {
		n, err := r.count(ctx, sql, r.target())
		return n == 1, err
	})
}
