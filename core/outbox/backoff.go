package outbox

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff is a wait that doubles. The zero value waits not at all. It is a plain
// value and safe for concurrent use.
type Backoff struct {
	// Base is the first wait, before jitter.
	Base time.Duration
	// Max bounds every wait, jitter included. 0 is no bound.
	Max time.Duration
	// Jitter spreads a wait by this part of it, up and down, so that workers which
	// failed together do not come back together: 0.2 is ±20 %.
	Jitter float64
}

// Delay is the wait after the n-th failure in a row, counted from 1.
func (b Backoff) Delay(n int) time.Duration {
	d, most := b.Base, b.limit()
	for i := 1; i < n && d < most; i++ {
		if d > most/2 { // or it could overflow
			d = most
			break
		}
		d *= 2
	}
	spread := 1 + b.Jitter*(2*rand.Float64()-1)
	if wait := float64(min(d, most)) * spread; wait < float64(most) {
		return time.Duration(wait)
	}
	return most
}

// check refuses a Backoff with which somebody would not wait, or wait for odd times.
func (b Backoff) check(name string) error {
	switch {
	case b == Backoff{}:
		return nil // the default is taken
	case b.Base <= 0, b.Max < 0:
		return fmt.Errorf("outbox: %s waits for %v, at most %v; want a Base above 0 and no negative Max", name, b.Base, b.Max)
	case !(b.Jitter >= 0 && b.Jitter <= 1):
		return fmt.Errorf("outbox: %s.Jitter is %v, want 0 to 1", name, b.Jitter)
	}
	return nil
}

// limit keeps the doubling far from overflow where no Max is set.
func (b Backoff) limit() time.Duration {
	if b.Max > 0 {
		return b.Max
	}
	return 24 * time.Hour
}
