package lab

import (
	"context"
	"slices"
	"testing"
	"time"

	"outboxplayground/core/pg"
)

// deaf is a double: a bus whose broker answers nothing.
type deaf struct{ nobus }

func (*deaf) Remove(ctx context.Context, _ string, _ ...string) error { <-ctx.Done(); return ctx.Err() }

// A stop has ten seconds for everything; a broker that does not answer must not
// take them all. The database is cleaned meanwhile; the topic that stays is noted.
func TestAStopDoesNotWaitLongForABrokerThatIsSilent(t *testing.T) {
	g := newGraveyard(t)
	schema := g.bury("nats", preparedLeft()...)
	pool, err := pg.Open(g.DatabaseURL, schema, pg.Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r := &run{bus: &deaf{}, pool: pool, schema: schema, spec: Spec{Bus: "nats"}, chapter: Chapter{Topic: "safe"}}
	begin := time.Now()
	r.cleanUp(ctx)
	if took := time.Since(begin); took < stopCleanUpLimit || took+childPatience > 9*time.Second {
		t.Errorf("the clean-up took %v", took)
	}
	if left := list(t, g.conn, schema); len(left) > 0 || !slices.Equal(g.noted(), []string{schema}) {
		t.Errorf("left over: %v, noted: %v", left, g.noted())
	}
	g.sweptAtLast(schema)
}
