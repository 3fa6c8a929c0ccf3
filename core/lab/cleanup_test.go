package lab

import (
	"context"
	"testing"
	"time"
)

// deaf is a double: a bus whose broker answers nothing.
type deaf struct{ nobus }

func (*deaf) Remove(ctx context.Context, _ string, _ ...string) error { <-ctx.Done(); return ctx.Err() }

// A stop has ten seconds for everything; a broker that does not answer must not
// take them all. What stays is noted.
func TestAStopDoesNotWaitLongForABrokerThatIsSilent(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r, begin := &run{bus: &deaf{}}, time.Now()
	r.cleanUp(ctx)
	if took := time.Since(begin); took < stopCleanUpLimit || took+childPatience > 9*time.Second {
		t.Errorf("the clean-up took %v", took)
	}
}
