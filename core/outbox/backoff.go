package outbox

import (
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
	d := b.Base
	for i := 1; i < n && d < b.limit(); i++ {
		d *= 2
	}
	spread := 1 + b.Jitter*(2*rand.Float64()-1)
	return min(time.Duration(float64(min(d, b.limit()))*spread), b.limit())
}

// limit keeps the doubling far from overflow where no Max is set.
func (b Backoff) limit() time.Duration {
	if b.Max > 0 {
		return b.Max
	}
	return 24 * time.Hour
}
