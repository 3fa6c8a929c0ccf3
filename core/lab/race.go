package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"outboxplayground/core/audit"
	"outboxplayground/core/fault"
)

// RaceSide is what became of one side's orders, counted in its tables.
type RaceSide struct {
	Chapter    int `json:"chapter"`
	Orders     int `json:"orders"`
	Delivered  int `json:"delivered"`
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
	Stuck      int `json:"stuck"`
	Pending    int `json:"pending"`
}

// RaceOutage is the outage that both sides went through.
type RaceOutage struct {
	FromOrder int     `json:"from_order"` // the first order placed while the broker was away; 0: none
	ToOrder   int     `json:"to_order"`   // the last one
	Ms        float64 `json:"ms"`
	Hits      int64   `json:"hits"` // connections cut and dials refused
}

// RaceResult is the naive way beside the outbox under the same outage.
type RaceResult struct {
	Count  int        `json:"count"`
	Bus    string     `json:"bus"`
	Naive  RaceSide   `json:"naive"`
	Outbox RaceSide   `json:"outbox"`
	Outage RaceOutage `json:"outage"`
	// Conclusive is false when the outage did not happen, or something is still
	// pending: then the numbers prove nothing.
	Conclusive bool      `json:"conclusive"`
	Note       string    `json:"note"`
	AsOf       time.Time `json:"as_of"`
}

// The shape of a race.
const (
	// healthyOrders come before the outage, as in the article's story.
	healthyOrders = 12
	// outageLimit stays below five polls of 500 ms, after which chapter 3's worker
	// would give up.
	outageLimit = 1500 * time.Millisecond
	// raceLimit bounds the whole race.
	raceLimit = 60 * time.Second
	// racers is how many customers of each side order at the same time.
	racers = 4
)

// Race places count orders both ways, on one bus, in schemas of their own, cuts the
// broker off from the 13th order on, and counts what arrived. The outage is real:
// connections are reset and dials refused by a proxy that all clients go through.
// It lasts until every order is placed and the outbox's relay has met it, at most
// 1.5 s. The bus in memory cannot be cut off: there the result is not conclusive.
func (l *Live) Race(ctx context.Context, naive, outbox, count int, busName string) (RaceResult, error) {
	ctx, cancel := context.WithTimeout(ctx, raceLimit)
	defer cancel()
	open, err := l.opener(busName)
	if err != nil {
		return RaceResult{}, err
	}
	proxy, err := fault.Listen()
	if err != nil {
		return RaceResult{}, err
	}
	defer proxy.Close()
	r := &race{live: l, bus: busName, open: open, proxy: proxy}
	defer r.close(ctx)
	for _, number := range []int{naive, outbox} {
		if err := r.enter(ctx, number); err != nil {
			return RaceResult{}, fmt.Errorf("race: chapter %d: %w", number, err)
		}
	}
	outage, err := r.run(ctx, count)
	if err != nil {
		return RaceResult{}, err
	}
	return r.result(ctx, count, outage)
}

// opener returns how to open a bus that is there now.
func (l *Live) opener(name string) (OpenBus, error) {
	info, err := l.Bus(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	open := l.opens[name]
	l.mu.Unlock()
	switch {
	case info.State == Off:
		return nil, fmt.Errorf("%w: %s: %s", ErrBusOff, name, info.Fix)
	case open == nil || info.State != Ready:
		return nil, fmt.Errorf("%w: %s: %s", ErrBusStarting, name, info.Note)
	}
	return open, nil
}

type race struct {
	live  *Live
	bus   string
	open  OpenBus
	proxy *fault.Proxy
	sides []*side
}

// run places the orders: the healthy ones, then the others under the outage.
func (r *race) run(ctx context.Context, count int) (RaceOutage, error) {
	healthy := min(count, healthyOrders)
	if err := r.placeAll(ctx, healthy, nil); err != nil {
		return RaceOutage{}, err
	}
	for _, s := range r.sides {
		if err := s.settle(ctx); err != nil {
			return RaceOutage{}, fmt.Errorf("race: before the outage: %w", err)
		}
	}
	outage, err := r.breakAndPlace(ctx, count, healthy)
	if err != nil {
		return outage, err
	}
	for _, s := range r.sides {
		// Not settled by the deadline is not an error: the tally shows what pends.
		if err := s.settle(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return outage, err
		}
	}
	return outage, nil
}

// breakAndPlace cuts the broker off, places what is left, and heals it.
func (r *race) breakAndPlace(ctx context.Context, count, healthy int) (RaceOutage, error) {
	if count == healthy {
		return RaceOutage{}, nil
	}
	begin := time.Now()
	broken, err := r.proxy.Inject(fault.Rule{Kind: fault.Outage, TTL: outageLimit})
	if err != nil {
		return RaceOutage{}, err
	}
	defer broken.Lift()
	outage := RaceOutage{FromOrder: healthy + 1}
	if err := r.placeAll(ctx, count-healthy, func(done int) {
		select {
		case <-broken.Done():
		default:
			outage.ToOrder = healthy + done
		}
	}); err != nil {
		return RaceOutage{}, err
	}
	if err := r.waitMet(ctx, broken); err != nil {
		return RaceOutage{}, err
	}
	broken.Lift()
	outage.Ms = float64(min(time.Since(begin), outageLimit).Microseconds()) / 1000
	outage.Hits = broken.Hits()
	return outage, nil
}

// waitMet waits until the relay of the outbox has failed once, or the outage has
// ended by itself.
func (r *race) waitMet(ctx context.Context, broken *fault.Injected) error {
	for _, s := range r.sides {
		if !s.chapter.Outbox {
			continue
		}
		err := s.until(ctx, broken.Done(), func() (bool, error) { return s.hasFailedOnce(ctx) })
		if err != nil {
			return err
		}
	}
	return nil
}

// placeAll places n orders on each side, both at the same time. placed is told how
// many both have placed at least.
func (r *race) placeAll(ctx context.Context, n int, placed func(int)) error {
	counter := lowWater{tell: placed}
	g, ctx := errgroup.WithContext(ctx)
	for i, s := range r.sides {
		g.Go(func() error { return s.place(ctx, n, func() { counter.add(i) }) })
	}
	return g.Wait()
}

func (r *race) result(ctx context.Context, count int, outage RaceOutage) (RaceResult, error) {
	res := RaceResult{Count: count, Bus: r.bus, Outage: outage, AsOf: time.Now().UTC()}
	for _, s := range r.sides {
		v, err := audit.Tally(ctx, s.source(), s.over)
		if err != nil {
			return RaceResult{}, err
		}
		got := RaceSide{s.chapter.Number, v.Orders, v.Delivered, v.Lost, v.Duplicated, v.Stuck, v.Pending}
		if s.chapter.Outbox {
			res.Outbox = got
		} else {
			res.Naive = got
		}
	}
	res.Conclusive = outage.Hits > 0 && res.Naive.Pending+res.Outbox.Pending == 0
	res.Note = raceNote(res)
	return res, nil
}

func raceNote(r RaceResult) string {
	switch {
	case r.Bus == "inmemory":
		return "the bus in memory has no connection that could be cut, so there was no outage: this proves nothing; choose a bus with a network"
	case r.Count <= healthyOrders:
		return fmt.Sprintf("the outage begins at order %d, so there was none: this proves nothing; ask for more orders", healthyOrders+1)
	case r.Outage.Hits == 0:
		return "the outage met no connection: this proves nothing"
	case !r.Conclusive:
		return "some events are still pending: this is not the last word"
	}
	return fmt.Sprintf("the broker was cut off from order %d to %d; every number is counted in the tables",
		r.Outage.FromOrder, r.Outage.ToOrder)
}
