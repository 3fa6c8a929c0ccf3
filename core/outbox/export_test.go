package outbox

// The tests ask the planner about the very statements that run.
const (
	CountRows     = countRows
	PlainClaim    = plainClaim
	LeasedClaim   = leasedClaim
	NoSort        = noSort
	EndClaim      = endClaim
	LeasedSent    = leasedSent
	LeasedSentAll = leasedSentAll
	AnyPending    = anyPending
)

// Sent is the statement that marks rows of a plain claim.
func Sent() string { return plainStatements().sent }
