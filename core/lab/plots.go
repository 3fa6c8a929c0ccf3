package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
	"outboxplayground/core/pg"
)

// errNoHit: the run is too short for its fault. The orders are placed all the same
// and the verdict is unknown.
var errNoHit = errors.New("the fault begins after the last order")

// secondRelay is the label of the relay that joins in.
const secondRelay = "relay-b"

// before places the orders ahead of the target and waits until they are settled, so
// that the fault strikes nothing that is still on its way.
func (r *run) before(ctx context.Context) error {
	if r.target() == "" {
		return errNoHit
	}
	if err := r.placeTo(ctx, r.span.from-1); err != nil {
		return err
	}
	return r.settle(ctx)
}

func plotNone(ctx context.Context, r *run) error { return r.placeTo(ctx, r.spec.Orders) }

func plotRollback(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.arm(ctx, Producing, checkpoint.BeforeCommit, doFail); err != nil {
		return err
	}
	if err := r.placeTo(ctx, r.span.from); err != nil {
		return err
	}
	r.hits = r.reached(Producing, checkpoint.BeforeCommit)
	return r.placeTo(ctx, r.spec.Orders)
}

// plotPoison: the child was told at its start which event to misdirect.
func plotPoison(ctx context.Context, r *run) error {
	if r.target() == "" {
		return errNoHit
	}
	if err := r.placeTo(ctx, r.spec.Orders); err != nil {
		return err
	}
	_, _, err := r.journal.await(ctx, nil, 0, func(l Line) bool {
		return l.Step == sayFailed && l.EventID == r.target()
	})
	r.hits = r.reached(r.publisher(), checkpoint.BeforePublish)
	return err
}

// plotBrokerDown cuts and refuses, for every role, from the target to the last order.
func plotBrokerDown(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.breakBroker(ctx); err != nil {
		return err
	}
	defer r.healNetwork()
	if err := r.placeTo(ctx, r.span.to); err != nil {
		return err
	}
	if err := r.outageHasLasted(ctx); err != nil {
		return err
	}
	r.hits = r.reachedInOutage(checkpoint.BeforePublish)
	r.healNetwork()
	return nil
}

// Of the outage.
const (
	// giveUpLimit bounds the wait for a relay that parks its rows: five polls of
	// 500 ms are over long before.
	giveUpLimit = 6 * time.Second
	// shortestOutage is long enough for a relay to meet it more than once.
	shortestOutage = 2 * time.Second
)

// outageHasLasted keeps the outage up: where the relay gives up until it has done
// so, elsewhere until it has met it and for the time that was asked for.
func (r *run) outageHasLasted(ctx context.Context) error {
	if r.shared != nil {
		return errors.Join(r.outageWasMet(ctx), r.shared.enough(ctx))
	}
	if r.variant.Relay == nil {
		return r.outageLasts(ctx, r.spec.Outage)
	}
	if !r.variant.GivesUp {
		return r.outageLasts(ctx, max(shortestOutage, r.spec.Outage))
	}
	limited, cancel := context.WithTimeout(ctx, giveUpLimit)
	defer cancel()
	err := poll(limited, func() (bool, error) {
		n, err := r.count(limited, `SELECT count(*) FROM outbox WHERE status = 'pending'`)
		return n == 0, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil // the tables will show what did not fail in time
	}
	return errors.Join(err, r.outageLasts(ctx, r.spec.Outage))
}

// outageWasMet waits until the relay, if there is one, has failed to publish once,
// or the outage has ended by itself.
func (r *run) outageWasMet(ctx context.Context) error {
	if r.variant.Relay == nil {
		return nil
	}
	_, _, err := r.journal.await(ctx, r.outage.Done(), 0, func(l Line) bool {
		return l.Label == Relaying && l.Step == sayFailed
	})
	if ctx.Err() == nil {
		return nil
	}
	return err
}

func (r *run) outageLasts(ctx context.Context, d time.Duration) error {
	begin := r.outages[len(r.outages)-1].begin
	if !pause(ctx, time.Until(begin.Add(d))) {
		return ctx.Err()
	}
	return nil
}

// slowness is what broker-slow adds to every reply.
const slowness = 200 * time.Millisecond

func plotBrokerSlow(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.breakNetwork(fault.Rule{Role: "bus", Kind: fault.Delay, Delay: slowness, TTL: fault.MaxTTL}); err != nil {
		return err
	}
	defer r.healNetwork()
	if err := r.placeTo(ctx, r.span.to); err != nil {
		return err
	}
	err := r.settle(ctx)
	r.hits = r.reachedInOutage(checkpoint.BeforePublish)
	r.healNetwork()
	return err
}

func plotDBDown(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.breakNetwork(fault.Rule{Role: "db", Kind: fault.Outage, TTL: fault.MaxTTL}); err != nil {
		return err
	}
	defer r.healNetwork()
	if err := r.placeTo(ctx, r.span.to); err != nil {
		return err
	}
	r.hits = func() (n int) {
		for _, answer := range r.answers[r.span.from-1 : r.span.to] {
			if answer != noReply {
				n++ // its order met the outage and came back with an answer
			}
		}
		return n
	}
	r.healNetwork()
	return r.placeTo(ctx, r.spec.Orders)
}

// publisher is the role that talks to the broker.
func (r *run) publisher() string {
	if r.variant.Relay != nil {
		return Relaying
	}
	return Producing
}

// swallowCut is how long after the first lost byte the connection is cut.
const swallowCut = 200 * time.Millisecond

func plotAckLost(ctx context.Context, r *run) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.breakNetwork(fault.Rule{Role: "bus/" + r.publisher(), Kind: fault.SwallowReplies,
		Arm: []byte(r.target()), CutAfter: swallowCut, Once: true, TTL: time.Minute}); err != nil {
		return err
	}
	defer r.healNetwork()
	if err := r.placeTo(ctx, r.span.from); err != nil {
		return err
	}
	if _, _, err := r.journal.await(ctx, nil, 0, func(l Line) bool {
		return l.Step == sayFailed && l.EventID == r.target()
	}); err != nil {
		return err
	}
	r.hits = r.reached(r.publisher(), checkpoint.BeforePublish)
	r.healNetwork()
	if err := r.reconnected(ctx, r.publisher()); err != nil {
		return err
	}
	return r.placeTo(ctx, r.spec.Orders)
}

// reconnected waits until a role can reach its broker again after a cut. The fault
// is one lost acknowledgement; orders placed while the client still reconnects
// would be lost to an outage, which is another fault.
func (r *run) reconnected(ctx context.Context, label string) error {
	p, from := r.find(label), len(r.journal.all())
	if err := p.tell(order{Reconnect: label}); err != nil {
		return err
	}
	_, _, err := r.journal.await(ctx, p.ended, from, func(l Line) bool {
		return l.Label == label && l.Step == sayConnected
	})
	return err
}

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
	if r.variant.DedupeWindow > 0 && !pause(ctx, 5*r.variant.DedupeWindow) {
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
	if !pause(ctx, time.Until(begin.Add(zombieSleep))) {
		return ctx.Err()
	}
	if err := fault.Continue(ctx, pid); err != nil {
		return err
	}
	r.hits = r.reached(Relaying, checkpoint.BeforePublish)
	return r.placeTo(ctx, r.spec.Orders)
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
	if w := r.variant.DedupeWindow; w > 0 && !pause(ctx, 5*w) {
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

// arm tells a role what shall happen when the target reaches a step, and waits
// until it has taken note.
func (r *run) arm(ctx context.Context, label string, at checkpoint.Name, do string) error {
	p, plan := r.find(label), PlanSpec{Label: label, At: at, EventID: r.target(), Do: do}
	if p == nil {
		return fmt.Errorf("%s is not running", label)
	}
	if err := p.tell(order{Arm: &plan}); err != nil {
		return err
	}
	_, _, err := r.journal.await(ctx, p.ended, 0, func(l Line) bool { return l.Step == sayArmed && l.Text == plan.name() })
	return err
}

func (r *run) release(label string, at checkpoint.Name) error {
	hold := PlanSpec{Label: label, At: at, EventID: r.target()}
	return r.find(label).tell(order{Release: hold.name()})
}

// awaitDeath waits until the victim is dead by SIGKILL, at the step it should be.
func (r *run) awaitDeath(ctx context.Context, victim *process, label string, at checkpoint.Name) error {
	select {
	case <-victim.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !victim.killed() {
		return fmt.Errorf("%s ended, but not by SIGKILL: %s", label, victim.complaint())
	}
	r.journal.add(Line{At: time.Now(), Label: label, Step: "killed", EventID: r.target(), Text: "SIGKILL, no further statement ran"})
	r.hits = r.reached(label, at)
	return nil
}

// awaitSent waits until the target's order is committed and its row, if any, sent.
func (r *run) awaitSent(ctx context.Context) error {
	sql := `SELECT count(*) FROM orders WHERE event_id = $1`
	if r.chapter.Outbox {
		sql = `SELECT count(*) FROM outbox WHERE event_id = $1 AND status = 'sent'`
	}
	return poll(ctx, func() (bool, error) {
		n, err := r.count(ctx, sql, r.target())
		return n == 1, err
	})
}

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

// breakBroker cuts the broker off from every role, or waits for the outage that
// several runs share.
func (r *run) breakBroker(ctx context.Context) (err error) {
	if r.shared == nil {
		return r.breakNetwork(fault.Rule{Role: "bus", Kind: fault.Outage, TTL: fault.MaxTTL})
	}
	r.outage, err = r.shared.begin(ctx, r)
	r.outages = append(r.outages, outageSpan{what: r.fault.Name, begin: time.Now()})
	return err
}

func (r *run) breakNetwork(rule fault.Rule) (err error) {
	rule.Name = r.fault.Name
	r.outage, err = r.proxy.Inject(rule)
	r.outages = append(r.outages, outageSpan{what: r.fault.Name, begin: time.Now()})
	return err
}

// healNetwork ends the fault and notes what it did. Twice is harmless.
func (r *run) healNetwork() {
	if r.outage == nil {
		return
	}
	r.outage.Lift()
	o := &r.outages[len(r.outages)-1]
	o.end = time.Now()
	r.report.Ms = float64(o.end.Sub(o.begin).Microseconds()) / 1000
	r.report.Network = r.outage.Hits()
	r.outage = nil
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
			<-p.ended
			continue
		}
		_, _, err := r.journal.await(ctx, p.ended, 0, func(l Line) bool { return l.Step == sayEcho && l.Text == echo })
		if err != nil && !p.over() {
			return err
		}
	}
	return nil
}
