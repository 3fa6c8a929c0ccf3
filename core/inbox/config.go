package inbox

import (
	"math/rand/v2"
	"time"
)

// Config says how patient a Once is. The zero value means the defaults.
type Config struct {
	// Attempts is how often the effect is tried within one delivery or one replay
	// before the message is a dead letter. Default: 5.
	Attempts int
	// FirstDelay is the pause after the first failure. It doubles with every further
	// one, up to MaxDelay, and up to a quarter is added at random, so that consumers
	// which failed together do not try again together. Default: 100 ms.
	FirstDelay time.Duration
	// MaxDelay bounds that pause without its random part: no pause is longer than 1.25
	// times MaxDelay. It is also the pause, without a random part, before a message is
	// given back to the broker because the database is away. Default: 1 s.
	MaxDelay time.Duration
	// Timeout bounds one attempt, its transaction included, but for a rollback that
	// gets no answer: another second. The effect has to heed its context. Default: 10 s.
	Timeout time.Duration
	// Poll is how often Run looks for replays that somebody asked for. Default: 500 ms.
	Poll time.Duration
}

func (c Config) withDefaults() Config {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	if c.Attempts <= 0 {
		c.Attempts = 5
	}
	orElse(&c.FirstDelay, 100*time.Millisecond)
	orElse(&c.MaxDelay, time.Second)
	orElse(&c.Timeout, 10*time.Second)
	orElse(&c.Poll, 500*time.Millisecond)
	return c
}

// delay is the pause after the n-th failure, counted from 1.
func (c Config) delay(n int) time.Duration {
	d := c.FirstDelay
	for ; n > 1 && d < c.MaxDelay; n-- {
		d *= 2
	}
	d = min(d, c.MaxDelay)
	return d + rand.N(d/4+1)
}
