package lab

import (
	"context"
	"sync"
	"time"

	"outboxplayground/core/fault"
)

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
