package outbox

import "sync/atomic"

// Counters are what a relay has done since it was made, for dashboards. What really
// happened is in the table.
type Counters struct {
	Claims       int64 // claims that took at least one row
	Claimed      int64 // rows
	Sent         int64
	Retried      int64 // rows that spent an attempt and are still pending
	Parked       int64
	Deferred     int64 // rows whose publish failed at no cost to them
	Released     int64 // rows given back unpublished
	Conflicts    int64 // rows that were somebody else's when they should be settled
	ClaimRetries int64 // claims repeated after a serialization failure or deadlock
	DBErrors     int64 // claims and settlements that the database did not carry out
	Trouble      int64 // failed publishes in a row of the lane; 0 is healthy
}

// counters are the same while they are counted.
type counters struct {
	claims, claimed, sent, retried, parked, deferred, released atomic.Int64
	conflicts, claimRetries, dbErrors, trouble                 atomic.Int64
}

// Counters returns the counts so far. Safe for concurrent use; the counts are not
// from one moment.
func (r *Relay) Counters() Counters {
	c := &r.counts
	return Counters{
		Claims: c.claims.Load(), Claimed: c.claimed.Load(), Sent: c.sent.Load(), Retried: c.retried.Load(),
		Parked: c.parked.Load(), Deferred: c.deferred.Load(), Released: c.released.Load(),
		Conflicts: c.conflicts.Load(), ClaimRetries: c.claimRetries.Load(),
		DBErrors: c.dbErrors.Load(), Trouble: c.trouble.Load(),
	}
}
