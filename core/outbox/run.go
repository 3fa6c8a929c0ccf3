package outbox

import (
	"context"
	"time"
)

// pipeline is what runs beside a publish: the claim of the next batch, and the
// settlement of those before. Each is one goroutine that ends with its one send
// into a buffered channel; Run waits for both. A nil channel is nothing under way.
type pipeline struct {
	ahead    chan claimed
	settling chan []settled
	waiting  []published // for the next settlement
}

// pile is how many published claims wait at most for the settlement under way, which may
// be of one more, while another is with the broker. So many, ten, does a worker leave to
// be published again that is killed where the bus is far faster than the database.
const pile = 4

// Run works until ctx ends and then finishes what it has in hand: what was published
// is settled, what was not is given back. It begins at once, goes on at once while
// batches come back full, and otherwise waits for Poll, Idle or Wake. Trouble with the
// broker or the database slows it down and never ends it: the error is nil.
func (r *Relay) Run(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &pipeline{}
	defer func() {
		r.settleAll(ctx, p)
		r.giveUpAhead(ctx, p)
	}()
	if r.cfg.Waker != nil {
		r.cfg.Waker.ready(ctx)
	}
	for ctx.Err() == nil {
		r.rest(ctx, p, r.cycle(ctx, p))
	}
	return nil
}

// cycle takes the batch that was claimed ahead, or claims one, publishes it and
// starts its settlement. It returns how long to wait.
func (r *Relay) cycle(ctx context.Context, p *pipeline) time.Duration {
	ahead := p.ahead != nil
	c := r.next(ctx, p)
	switch {
	case c.err != nil, len(c.rows) == 0:
		r.settleAll(ctx, p)
		res, _ := r.nothing(ctx, c) // the error is logged and counted already
		return res.Next
	case ctx.Err() != nil, ahead && r.stale(c):
		r.giveBack(ctx, c.rows)
		return 0
	}
	if c.full && r.lane.trouble == 0 {
		want := r.lane.want(r.cfg, r.name)
		p.ahead = start(func() claimed { return r.claim(ctx, want) })
	}
	out := r.publish(ctx, c)
	p.waiting = append(p.waiting, out)
	r.settleNext(ctx, p)
	if out.next > 0 && p.ahead != nil {
		r.giveUpAhead(ctx, p)
	}
	if out.slowDown {
		r.settleAll(ctx, p) // its rows are to be found by the next claim
	}
	return max(out.next, r.databaseRest())
}

// next returns the batch that was claimed ahead, or claims one now.
func (r *Relay) next(ctx context.Context, p *pipeline) (c claimed) {
	if p.ahead != nil {
		c = <-p.ahead
		p.ahead = nil
	} else {
		c = r.claim(ctx, r.lane.want(r.cfg, r.name))
	}
	r.landed(c)
	return c
}

// giveUpAhead releases what was claimed ahead: its time has not come, or is over.
func (r *Relay) giveUpAhead(ctx context.Context, p *pipeline) {
	if p.ahead == nil {
		return
	}
	c := <-p.ahead
	p.ahead = nil
	r.landed(c)
	r.giveBack(ctx, c.rows)
}

// settleNext starts the settlement of all that waits for one, unless one is under way.
// That is waited for where too much is waiting.
func (r *Relay) settleNext(ctx context.Context, p *pipeline) {
	if len(p.waiting) > pile {
		r.collect(p)
	}
	select {
	case s := <-p.settling:
		r.settlementEnded(p, s)
	default:
	}
	if p.settling == nil && len(p.waiting) > 0 {
		now := p.waiting
		p.waiting = nil
		p.settling = start(func() []settled { return r.settle(ctx, now, 0) })
	}
}

// settleAll waits until nothing is left to be settled.
func (r *Relay) settleAll(ctx context.Context, p *pipeline) {
	for r.collect(p); len(p.waiting) > 0; r.collect(p) {
		r.settleNext(ctx, p)
	}
}

// collect waits for the settlement under way.
func (r *Relay) collect(p *pipeline) {
	if p.settling != nil {
		r.settlementEnded(p, <-p.settling)
	}
}

// settlementEnded takes note of it in the lane, and makes room for the next.
func (r *Relay) settlementEnded(p *pipeline, s []settled) {
	r.absorb(s)
	p.settling = nil
}

// databaseRest is the wait that errors of the database ask for.
func (r *Relay) databaseRest() time.Duration {
	if r.lane.dbErrors == 0 {
		return 0
	}
	return r.cfg.Probe.Delay(r.lane.dbErrors)
}

// rest waits for d, or until Wake is called; where there is trouble a wake changes
// nothing and is kept for later.
func (r *Relay) rest(ctx context.Context, p *pipeline, d time.Duration) {
	if d <= 0 {
		return
	}
	var wake <-chan struct{}
	t, gap := time.NewTimer(d), time.NewTimer(r.cfg.Gap-time.Since(r.lane.claimed))
	defer t.Stop()
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-gap.C:
			wake = r.wakes()
		case <-wake:
			return
		case s := <-p.settling:
			r.settlementEnded(p, s)
			r.settleNext(ctx, p)
		}
	}
}

// wakes is what may cut a wait short now.
func (r *Relay) wakes() <-chan struct{} {
	if r.lane.trouble > 0 || r.lane.dbErrors > 0 {
		return nil
	}
	return r.wake
}

// start runs do in a goroutine and returns where its result will be.
func start[T any](do func() T) chan T {
	done := make(chan T, 1)
	go func() { done <- do() }()
	return done
}
