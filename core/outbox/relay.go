package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"outboxplayground/core/bus"
)

// Relay sends the rows of one bus. One relay for each bus makes a lane: a broker
// that is down delays only its own rows. With Leased any number of relays, in any
// number of processes, may share a lane.
type Relay struct {
	db   DB
	bus  bus.Bus
	name string
	cfg  Config

	wake   chan struct{}
	counts counters

	mu   sync.Mutex // one Step or Run at a time
	lane lane
}

// NewRelay makes the relay for the rows whose bus is busName. It starts nothing.
// The database and the bus stay the caller's, who closes them after Run.
func NewRelay(db DB, b bus.Bus, busName string, cfg Config) (*Relay, error) {
	if db == nil || b == nil || busName == "" {
		return nil, errors.New("outbox: a relay needs a database, a bus and its name")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Relay{db: db, bus: b, name: busName, cfg: cfg, wake: make(chan struct{}, 1)}
	if cfg.Waker != nil {
		cfg.Waker.add(r)
	}
	return r, nil
}

// Wake says that there may be something to send, and cuts the wait of Run short. It
// never blocks; several calls before the next claim count as one.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Result is what one cycle did.
type Result struct {
	Claimed   int
	Sent      int
	Retried   int // spent an attempt, still pending
	Parked    int // failed: a person has to look
	Deferred  int // failed at no cost to the row
	Released  int // given back unpublished
	Conflicts int // of all these, how many the table no longer gave to this worker
	// Unavailable: the broker could not be reached at all.
	Unavailable bool
	// Probing: the lane goes on with one row at a time.
	Probing bool
	// Next is when the next cycle should follow; 0 is at once.
	Next time.Duration
}

// Step makes one cycle: it claims, publishes, settles, and says what it did. Its
// error is the database's, or one of a step. It works while Run does not; the two
// exclude each other.
func (r *Relay) Step(ctx context.Context) (Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.claim(ctx, r.lane.want(r.cfg, r.name))
	r.landed(c)
	if c.err != nil || len(c.rows) == 0 {
		return r.nothing(ctx, c)
	}
	p := r.publish(ctx, c)
	s := r.settle(ctx, []published{p}, 1)
	r.absorb(s)
	return p.result(s[0]), s[0].err
}

// nothing ends a cycle whose claim brought no row to publish.
func (r *Relay) nothing(ctx context.Context, c claimed) (Result, error) {
	res := Result{Claimed: len(c.rows), Released: len(c.rows), Probing: r.lane.trouble > 0, Next: r.cfg.Poll}
	r.giveBack(ctx, c.rows)
	if c.idle && !res.Probing {
		res.Next = r.cfg.Idle
	}
	if res.Probing && c.from > 0 {
		res.Next = 0 // round again, from the oldest
	}
	if c.err != nil {
		res.Next = r.cfg.Probe.Delay(r.lane.dbErrors)
	}
	return res, c.err
}
