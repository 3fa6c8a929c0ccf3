package lab

import (
	"context"
	"fmt"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
)

// secondRelay is the label of the relay that joins in.
const secondRelay = "relay-b"

// plotTwoRelays holds the first relay between publish and mark while a second one
// claims.
func plotTwoRelays(ctx context.Context, r *run) error {
	if err := r.holdRelay(ctx, checkpoint.BeforeMark); err != nil {
		return err
	}
	if err := r.letSecondRelayWork(ctx); err != nil {
		return err
	}
	r.hits = r.reached(Relaying, checkpoint.BeforeMark)
	if err := r.release(Relaying, checkpoint.BeforeMark); err != nil {
		return err
	}
	return r.placeTo(ctx, r.spec.Orders)
}

// A zombie stands still for longer than its lease (3 s), and for less than every
// heartbeat.
const zombieSleep = 4 * time.Second

// plotZombieRelay stops the first relay, lets the second one finish, and continues
// the first.
func plotZombieRelay(ctx context.Context, r *run) error {
	if err := r.holdRelay(ctx, checkpoint.BeforePublish); err != nil {
		return err
	}
	pid := r.find(Relaying).cmd.Process.Pid
	if err := fault.Stop(ctx, pid); err != nil {
		return err
	}
	begin := time.Now()
	if err := r.release(Relaying, checkpoint.BeforePublish); err != nil {
		return err // it reads this when it wakes up
	}
	if err := r.letSecondRelayWork(ctx); err != nil {
		return err
	}
	if !bus.Pause(ctx, time.Until(begin.Add(zombieSleep))) {
		return ctx.Err()
	}
	if err := fault.Continue(ctx, pid); err != nil {
		return err
	}
	r.hits = r.reached(Relaying, checkpoint.BeforePublish)
	r.stopped = append(r.stopped, Stretch{What: "SIGSTOP", Where: Relaying, Begin: begin.UTC(), End: time.Now().UTC()})
	if err := r.zombiePublished(ctx); err != nil {
		return err
	}
	return r.placeTo(ctx, r.spec.Orders)
}

// zombiePublished waits until the relay that stood still has published, or failed
// to: on a busy machine it may come after the last order has come to rest. A relay
// that looks at its lease once more never does.
func (r *run) zombiePublished(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, giveUpLimit)
	defer cancel()
	published, failed := r.step(Relaying, checkpoint.AfterPublish), r.step(Relaying, sayFailed)
	_, _, _ = r.journal.await(limited, r.find(Relaying).ended, 0, func(l Line) bool { return published(l) || failed(l) })
	return ctx.Err()
}

// holdRelay places the target and waits until the relay holds it at a step.
func (r *run) holdRelay(ctx context.Context, at checkpoint.Name) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.arm(ctx, Relaying, at, doHold); err != nil {
		return err
	}
	if err := r.placeTo(ctx, r.span.from); err != nil {
		return err
	}
	_, _, err := r.journal.await(ctx, r.find(Relaying).ended, 0, r.step(Relaying, at))
	return err
}

// letSecondRelayWork starts the second relay, waits until it has been through a
// claim of the target (or found nothing), and stops it.
func (r *run) letSecondRelayWork(ctx context.Context) error {
	if w := r.variant.DedupeWindow; w > 0 && !bus.Pause(ctx, 5*w) {
		return ctx.Err()
	}
	from := len(r.journal.all())
	second, err := r.startSecondRelay(ctx)
	if err != nil {
		return err
	}
	_, _, err = r.journal.await(ctx, second.ended, from, func(l Line) bool {
		if l.Label != secondRelay {
			return false
		}
		marked := l.Step == string(checkpoint.AfterMark) && l.EventID == r.target()
		empty := l.Step == string(checkpoint.Claimed) && l.EventID == "" && !r.leased()
		return marked || empty
	})
	if err != nil {
		return fmt.Errorf("the second relay: %w", err)
	}
	second.struck = !r.memory() // its process has no other role and ends with it
	if err := second.tell(order{Stop: secondRelay}); err != nil {
		return err
	}
	_, _, err = r.journal.await(ctx, second.ended, from, func(l Line) bool {
		return l.Label == secondRelay && l.Step == sayStopped
	})
	return err
}

// leased tells whether the second relay finds nothing until a lease has run out: a
// zombie's row comes to it only then.
func (r *run) leased() bool { return r.fault.Name == "zombie-relay" }

func (r *run) startSecondRelay(ctx context.Context) (*process, error) {
	if r.memory() {
		p := r.find(secondRelay)
		return p, p.tell(order{Start: secondRelay})
	}
	return r.spawn(ctx, RoleSpec{Role: Relaying, Label: secondRelay})
}
