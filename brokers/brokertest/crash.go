package brokertest

import (
	"context"
	"sync/atomic"
	"time"

	"outboxplayground/core/bus"
)

func crashChecks() []Check {
	return []Check{{Name: "crash-and-restart", skip: crashable, run: crashAndRestart}}
}

// crashAndRestart kills the server under a steady trickle and starts it again.
// Publisher and subscriber go on with the same bus. One group reads all the time;
// another one only afterwards, so that no cause for repeats is left.
func crashAndRestart(ctx context.Context, tr *trial) {
	b := tr.open(ctx)
	tr.prepare(ctx, b, safe, mailer, bookkeeper)
	s := tr.subscribe(ctx, b, safe, mailer, "a", nil)
	d := &death{tr: tr}
	stop := tr.trickle(ctx, b, 1, d.watch)
	defer stop()
	tr.more(ctx, 30, "before the crash")
	tr.must(tr.h.Crash(ctx), "Crash")
	d.last(ctx)
	tr.must(tr.h.Restart(ctx), "Restart")
	tr.more(ctx, 30, "after the restart")
	stop()
	t := terms{repeats: true, losses: !tr.f.Durable}
	tr.conclude(ctx, b, safe, t, mailer)
	tr.subscribe(ctx, b, safe, bookkeeper, "late", nil)
	t.repeats = false
	tr.conclude(ctx, b, safe, t, bookkeeper)
	s.stop()
}

// death is the time in which the server is certainly dead. It judges the publishes
// that began in it.
type death struct {
	tr      *trial
	since   atomic.Int64 // Unix nanoseconds; 0 while the server may be alive
	refused atomic.Int32
	pace    pace
}

// last makes the death last until some publishes were told that the server is away.
func (d *death) last(ctx context.Context) {
	d.since.Store(time.Now().UnixNano())
	if !poll(ctx, noticeWithin, func() bool { return d.refused.Load() >= 10 }) {
		d.tr.violate(WrongClass, nil, "within %v of the crash only %d publishes were reported unavailable",
			noticeWithin, d.refused.Load())
	}
	d.since.Store(0)
	d.tr.within(&d.pace, atOnce, "a publish while the server is dead")
}

// watch sees each answer of the trickle. One that takes its second and is
// ambiguous is right only while the client has not noticed yet; last sees to that.
func (d *death) watch(began time.Time, err error) {
	since := d.since.Load()
	if since == 0 || began.UnixNano() < since {
		return
	}
	switch c := bus.Classify(err); c {
	case bus.Unavailable:
		d.refused.Add(1)
		d.pace.lap(began)
	case bus.Accepted, bus.Rejected:
		d.tr.class("", err, "a publish while the server is dead", bus.Unavailable, bus.Ambiguous)
	}
}
