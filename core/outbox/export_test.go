package outbox

// The tests ask the planner about the very statements that run.
const (
	CountRows   = countRows
	PlainClaim  = plainClaim
	LeasedClaim = leasedClaim
	NoSort      = noSort
	EndClaim    = endClaim
	AnyPending  = anyPending
)
