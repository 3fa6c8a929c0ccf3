package outbox

import (
	"time"

	"outboxplayground/core/bus"
)

// Fate is what becomes of a row whose publish failed.
type Fate int

// The fates. None of them forgets the row.
const (
	Deferred Fate = iota // pending as before; no attempt is spent
	Retried              // pending; an attempt is spent, and the row waits for a while
	Parked               // failed: an attempt is spent, and a person has to look at it
)

// Failure is a publish that failed, as a Policy sees it.
type Failure struct {
	Class    bus.Class
	Attempts int  // spent before this one
	Alone    bool // the row was published alone, so the failure is about it
	Partly   bool // the broker took others of the same batch
}

// Decision is what a Policy makes of a Failure.
type Decision struct {
	Fate  Fate
	Delay time.Duration // for Deferred and Retried: how long the row waits
	// Probe: the trouble may be the broker's. The lane goes on with one row at a
	// time, at growing intervals, until one of them gets through.
	Probe bool
}

// Policy decides what becomes of rows whose publish failed. It must be safe for
// concurrent use.
type Policy interface {
	Decide(f Failure) Decision
}

// Patient tells an outage from a rejection. An outage costs no attempt, however
// long it lasts. A message that the broker will never take is parked at once. In
// between, when nobody knows, only a row that was sent alone spends an attempt:
// for a whole batch the broker is to blame more likely than each of its rows.
type Patient struct {
	// MaxAttempts is how many ambiguous failures a row may have. Default: 5.
	MaxAttempts int
	// Backoff is how long the row waits after each. Default: 1, 2, 4, 8 s ± 20 %. The
	// first of them is also the wait of a row whose own destination is away: the broker
	// took others at the same time.
	Backoff Backoff
}

const defaultAttempts = 5

// retryBackoff is the wait of a row. Base 1 s: shorter than a broker's restart, so
// that five attempts reach over one.
func retryBackoff() Backoff { return Backoff{Base: time.Second, Max: time.Minute, Jitter: 0.2} }

// Decide implements Policy.
func (p Patient) Decide(f Failure) Decision {
	most, wait := p.MaxAttempts, p.Backoff
	if most <= 0 {
		most = defaultAttempts
	}
	if wait == (Backoff{}) {
		wait = retryBackoff()
	}
	switch {
	case f.Class == bus.Rejected:
		return Decision{Fate: Parked}
	case f.Class == bus.Unavailable && f.Partly:
		return Decision{Fate: Deferred, Delay: wait.Delay(1)}
	case f.Class == bus.Unavailable, !f.Alone:
		return Decision{Fate: Deferred, Probe: true}
	case f.Attempts+1 >= most:
		return Decision{Fate: Parked, Probe: true}
	}
	return Decision{Fate: Retried, Delay: wait.Delay(f.Attempts + 1), Probe: true}
}

// FivePolls is the policy of the article: every failure spends an attempt, whatever
// its reason, and the fifth parks the row. Polling twice a second, an outage of
// two and a half seconds parks every row it meets.
type FivePolls struct{}

// Decide implements Policy.
func (FivePolls) Decide(f Failure) Decision {
	if f.Attempts+1 >= defaultAttempts {
		return Decision{Fate: Parked}
	}
	return Decision{Fate: Retried}
}
