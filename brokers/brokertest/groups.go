package brokertest

import (
	"context"
	"time"

	"outboxplayground/core/bus"
)

const bookkeeper = "bookkeeper" // the second group

func groupChecks() []Check {
	return []Check{
		{Name: "groups-each-get-all", run: groupsEachGetAll},
		{Name: "members-share", run: membersShare},
		{Name: "prepared-group-waits", run: preparedGroupWaits},
		{Name: "new-group-starts-at-oldest", skip: func(_ Harness, f Features) string {
			return unless(f.Replays, "keeps nothing for groups that nobody prepared")
		}, run: newGroupStartsAtOldest},
		{Name: "max-unacked", skip: func(_ Harness, f Features) string {
			return unless(!f.Partitioned, "members share by partition: what one holds nobody else can see")
		}, run: maxUnacked},
		{Name: "backlog", run: backlog},
		{Name: "prepare-and-remove-twice", run: prepareAndRemoveTwice},
	}
}

func groupsEachGetAll(ctx context.Context, tr *trial) {
	b := tr.open(ctx)
	tr.prepare(ctx, b, safe, mailer, bookkeeper)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	tr.subscribe(ctx, b, safe, bookkeeper, "a", nil)
	tr.accept(ctx, b, messages(safe, 50)...)
	tr.conclude(ctx, b, safe, terms{ordered: tr.f.Ordered}, mailer, bookkeeper)
}

// membersShare first sends waves until both members have taken part, which
// includes any rebalancing, and judges repeats only on what comes after.
func membersShare(ctx context.Context, tr *trial) {
	b, b2 := tr.ready(ctx), tr.open(ctx)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	tr.subscribe(ctx, b2, safe, mailer, "b", nil)
	limit := tr.f.Patience
	if tr.f.Partitioned { // one of them may have no partition: do not wait for it long
		limit = min(limit, rebalancedWithin)
	}
	both := poll(ctx, limit, func() bool {
		tr.accept(ctx, b, messages(safe, 20)...)
		tr.settle(ctx, b, safe, mailer)
		return tr.tookPart("a") && tr.tookPart("b")
	})
	if !both && !tr.f.Partitioned {
		tr.violate(NotShared, nil, "one of two members got nothing within %v", tr.f.Patience)
	}
	settled := tr.ledger.published()
	tr.accept(ctx, b, messages(safe, 200)...)
	tr.conclude(ctx, b, safe, terms{settled: settled}, mailer)
}

const rebalancedWithin = 5 * time.Second

func (tr *trial) tookPart(member string) bool {
	tr.ledger.mu.Lock()
	defer tr.ledger.mu.Unlock()
	return tr.ledger.deliveries(mailer, func(d *delivery) bool { return d.member == member }) > 0
}

// preparedGroupWaits: a group whose first member comes late has missed nothing.
func preparedGroupWaits(ctx context.Context, tr *trial) {
	b := tr.open(ctx)
	tr.prepare(ctx, b, safe, mailer, bookkeeper)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	tr.accept(ctx, b, messages(safe, 20)...)
	tr.conclude(ctx, b, safe, terms{}, mailer)
	tr.subscribe(ctx, b, safe, bookkeeper, "late", nil)
	tr.conclude(ctx, b, safe, terms{ordered: tr.f.Ordered}, bookkeeper)
}

// newGroupStartsAtOldest is the same for a group that nobody knew of.
func newGroupStartsAtOldest(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	tr.accept(ctx, b, messages(safe, 20)...)
	tr.prepare(ctx, b, safe, bookkeeper)
	tr.subscribe(ctx, b, safe, bookkeeper, "new", nil)
	tr.conclude(ctx, b, safe, terms{ordered: tr.f.Ordered}, bookkeeper)
}

// maxUnacked stops one member in its handler. Another one must then get all
// messages but those few that the first may hold.
func maxUnacked(ctx context.Context, tr *trial) {
	const limit, count = 4, 30
	few := func(c *bus.Config) { c.MaxUnacked = limit }
	b, b2 := tr.ready(ctx, few), tr.open(ctx, few)
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	first := tr.subscribe(ctx, b, safe, mailer, "slow", blockOnce(entered, release))
	tr.accept(ctx, b, messages(safe, count)...)
	if !tr.entered(entered, "the first member") {
		return
	}
	tr.subscribe(ctx, b2, safe, mailer, "quick", nil)
	quick := func() bool {
		return tr.ledger.deliveries(mailer, func(d *delivery) bool { return d.member == "quick" }) >= count-limit
	}
	if !tr.progress(ctx, mailer, quick) {
		tr.violate(HoldsTooMany, nil, "a stopped member keeps more than %d of %d messages from another one", limit, count)
	}
	release <- struct{}{}
	tr.conclude(ctx, b, safe, terms{repeats: true}, mailer)
	first.stop()
}

// blockOnce stops in its first call until it is released, and says that it did.
func blockOnce(entered chan<- struct{}, release <-chan struct{}) bus.Handler {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	return func(ctx context.Context, _ bus.Message) error {
		select {
		case <-first:
		default:
			return nil
		}
		close(entered)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (tr *trial) entered(entered <-chan struct{}, who string) bool {
	select {
	case <-entered:
		return true
	case <-time.After(tr.f.Patience):
		tr.violate(Lost, nil, "%s got nothing within %v", who, tr.f.Patience)
		return false
	}
}

func backlog(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	bl, ok := b.(bus.Backlogger)
	if !ok {
		return
	}
	count := func(what string, want func(int64) bool) {
		var n int64
		var err error
		if !poll(ctx, tr.f.Patience, func() bool {
			n, err = bl.Backlog(ctx, safe, mailer)
			return err == nil && want(n)
		}) {
			tr.violate(WrongBacklog, nil, "%s: Backlog says %d (%v)", what, n, err)
		}
	}
	count("nothing published", func(n int64) bool { return n == 0 })
	tr.accept(ctx, b, messages(safe, 5)...)
	count("5 messages wait", func(n int64) bool { return n == 5 })
	entered, release := make(chan struct{}), make(chan struct{})
	s := tr.subscribe(ctx, b, safe, mailer, "a", blockOnce(entered, release))
	if tr.entered(entered, "the group") {
		count("1 of 5 is in a handler's hands, none acknowledged", func(n int64) bool { return n == 5 })
	}
	close(release)
	tr.conclude(ctx, b, safe, terms{repeats: true}, mailer)
	count("all are acknowledged", func(n int64) bool { return n == 0 })
	s.stop()
}

// prepareAndRemoveTwice: what exists is left as it is, messages included.
func prepareAndRemoveTwice(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	top, ok := b.(bus.Topology)
	if !ok {
		return
	}
	tr.accept(ctx, b, messages(safe, 3)...)
	tr.prepare(ctx, b, safe, mailer)
	s := tr.subscribe(ctx, b, safe, mailer, "a", nil)
	tr.conclude(ctx, b, safe, terms{}, mailer)
	s.stop()
	for _, what := range []string{"first Remove", "second Remove"} {
		if err := top.Remove(ctx, safe, mailer); err != nil {
			tr.violate(Failed, nil, "%s: %v", what, err)
		}
	}
	if err := top.Remove(ctx, "never-made", mailer); err != nil {
		tr.violate(Failed, nil, "Remove of what never existed: %v", err)
	}
}
