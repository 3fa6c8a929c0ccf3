package inbox

import "time"

// WithDefaults and Delay show the tests what Config means.
func WithDefaults(c Config) Config { return c.withDefaults() }

// Delay is the pause after the n-th failure.
func Delay(c Config, n int) time.Duration { return c.delay(n) }
