package web

import (
	"context"
	"sync"
	"time"

	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
)

// The bounds of a Sampler.
const (
	sampleEvery = 2 * time.Second
	samplesKept = 300 // ten minutes at that pace
	// sampleShare bounds what sampling may cost: it rests at least so many times as
	// long as the reading took, since counting the sent rows takes time when there are
	// millions of them.
	sampleShare = 50
	sampleLimit = 5 * time.Second // for one reading
)

// sample is what one chapter's outbox looked like at one moment.
type sample struct {
	at    time.Time
	stats outbox.Stats
}

// Sampler remembers the last minutes of every outbox, so that a page can show how
// figures have moved. Its methods are safe for concurrent use.
type Sampler struct {
	live *lab.Live

	mu      sync.Mutex
	samples map[int][]sample // by chapter, the oldest first
}

// NewSampler makes a sampler of the chapters that have an outbox. Run makes it work.
func NewSampler(live *lab.Live) *Sampler {
	return &Sampler{live: live, samples: map[int][]sample{}}
}

// Run reads the figures again and again until ctx ends.
func (s *Sampler) Run(ctx context.Context) {
	for {
		began := time.Now()
		s.round(ctx)
		rest := time.NewTimer(max(sampleEvery, sampleShare*time.Since(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// round reads every outbox once. What cannot be read now is a gap in the chart.
func (s *Sampler) round(ctx context.Context) {
	for _, ch := range s.live.Chapters() {
		if !ch.Outbox || s.live.DB(ch.Number) == nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, sampleLimit)
		stats, err := readStats(limited, s.live.DB(ch.Number), ch)
		cancel()
		if err == nil {
			s.keep(ch.Number, sample{time.Now(), stats})
		}
	}
}

// keep adds a sample and drops the oldest beyond what is kept.
func (s *Sampler) keep(chapter int, x sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append(s.samples[chapter], x)
	if over := len(list) - samplesKept; over > 0 {
		list = append([]sample(nil), list[over:]...)
	}
	s.samples[chapter] = list
}

// of returns a copy of a chapter's samples, the oldest first. A nil sampler has none.
func (s *Sampler) of(chapter int) []sample {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sample(nil), s.samples[chapter]...)
}
