package lab

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"outboxplayground/core/fault"
)

// RaceSide is what became of one side's orders, counted in its tables.
type RaceSide struct {
	Chapter    int    `json:"chapter"`
	Run        string `json:"run"` // where its report is
	Orders     int    `json:"orders"`
	Delivered  int    `json:"delivered"`
	Lost       int    `json:"lost"`
	Duplicated int    `json:"duplicated"`
	Stuck      int    `json:"stuck"`
	Pending    int    `json:"pending"`
}

// RaceOutage is the one outage that both sides went through.
type RaceOutage struct {
	FromOrder int     `json:"from_order"` // the first order placed while the broker was away; 0: none
	ToOrder   int     `json:"to_order"`   // the last one that both sides placed before its end
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

// raceOutage is the longest outage: shorter than five polls of 500 ms, after which
// chapter 3's worker would give up.
const raceOutage = 1500 * time.Millisecond

// Race runs two chapters side by side, each in processes of its own, through one
// proxy and one outage: from the 13th order on, until both have placed their last
// and the outbox's relay has met it, at most 1.5 s. The bus in memory cannot be cut
// off: there the result is not conclusive.
func (l *Lab) Race(ctx context.Context, naive, outbox, count int, busName string) (RaceResult, []Result, error) {
	proxy, err := fault.Listen()
	if err != nil {
		return RaceResult{}, nil, err
	}
	defer proxy.Close()
	shared := newShared(proxy, 2)
	faultName := "broker-down"
	if busName == "inmemory" {
		faultName, shared = "none", nil
	}
	results := make([]Result, 2)
	g, ctx := errgroup.WithContext(ctx)
	for i, number := range []int{naive, outbox} {
		g.Go(func() error {
			spec := Spec{Chapter: number, Bus: busName, Fault: faultName, Orders: count}.withDefaults()
			var err error
			results[i], err = l.runAs(ctx, newRunID(), spec, shared, nil)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return RaceResult{}, nil, err
	}
	return raceResult(busName, count, shared, results), results, nil
}

func raceResult(busName string, count int, shared *sharedOutage, results []Result) RaceResult {
	res := RaceResult{Count: count, Bus: busName, AsOf: time.Now().UTC(),
		Naive: raceSide(results[0].Report), Outbox: raceSide(results[1].Report), Outage: shared.report()}
	res.Conclusive = res.Outage.Hits > 0 && res.Naive.Pending+res.Outbox.Pending == 0
	switch {
	case busName == "inmemory":
		res.Note = "the bus in memory has no connection that could be cut, so there was no outage: this proves nothing; choose a bus with a network"
	case res.Outage.Hits == 0:
		res.Note = fmt.Sprintf("the outage begins at order %d and met nothing: this proves nothing; ask for more orders", firstTarget)
	case !res.Conclusive:
		res.Note = "some events are still pending: this is not the last word"
	default:
		res.Note = fmt.Sprintf("the broker was cut off from order %d to %d; every number is counted in the tables", res.Outage.FromOrder, res.Outage.ToOrder)
	}
	return res
}

func raceSide(r Report) RaceSide {
	v := r.Measured
	return RaceSide{r.Chapter, r.ID, v.Orders, v.Delivered, v.Lost, v.Duplicated, v.Stuck, v.Pending}
}

// sharedOutage lets several runs go through one outage: it begins when all have
// settled their healthy orders and ends when all have had enough of it.
type sharedOutage struct {
	proxy *fault.Proxy
	begun chan struct{} // closed when it has begun

	mu       sync.Mutex
	coming   int // runs that have not come to it yet
	leaving  int // runs that have not had enough of it
	rule     *fault.Injected
	from     int
	since    time.Time
	ended    time.Time
	journals []*journal
}

func newShared(proxy *fault.Proxy, runs int) *sharedOutage {
	return &sharedOutage{proxy: proxy, begun: make(chan struct{}), coming: runs, leaving: runs}
}

// begin waits for the other runs, then the outage is on for all.
func (s *sharedOutage) begin(ctx context.Context, r *run) (*fault.Injected, error) {
	if err := s.come(r); err != nil {
		return nil, err
	}
	select {
	case <-s.begun:
		return s.rule, nil
	case <-ctx.Done(): // another run has failed
		return nil, ctx.Err()
	}
}

func (s *sharedOutage) come(r *run) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journals = append(s.journals, r.journal)
	if s.coming--; s.coming > 0 {
		return nil
	}
	s.from, s.since = r.span.from, time.Now()
	s.rule, err = s.proxy.Inject(fault.Rule{Name: "race", Role: "bus", Kind: fault.Outage, TTL: raceOutage})
	close(s.begun)
	return err
}

// enough tells that one run has had enough, and waits for the end: when all have,
// or when the outage's time is over.
func (s *sharedOutage) enough(ctx context.Context) error {
	s.mu.Lock()
	s.leaving--
	last := s.leaving == 0
	s.mu.Unlock()
	if last {
		s.rule.Lift()
	}
	select {
	case <-s.rule.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.IsZero() {
		s.ended = time.Now()
	}
	return nil
}

// report says what the outage covered: the orders that every run had an answer to
// by its end.
func (s *sharedOutage) report() RaceOutage {
	if s == nil || s.rule == nil {
		return RaceOutage{}
	}
	to := -1
	for _, j := range s.journals {
		n := 0
		for _, l := range j.all() {
			if l.Step == sayAnswer && !l.At.After(s.ended) {
				n++
			}
		}
		if to < 0 || n < to {
			to = n
		}
	}
	ms := float64(s.ended.Sub(s.since).Microseconds()) / 1000
	return RaceOutage{FromOrder: s.from, ToOrder: to, Ms: ms, Hits: s.rule.Hits()}
}
