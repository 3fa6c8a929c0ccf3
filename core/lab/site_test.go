package lab

import (
	"context"
	"slices"
	"testing"

	"outboxplayground/core/shop"
)

// A benchmark that was killed leaves what a killed run leaves, and it goes the same way;
// one that lives is spared.
func TestASweepTakesTheSiteOfADeadProcessOnly(t *testing.T) {
	g, schema := newGraveyard(t), "bench_"+newRunID()
	site, err := NoteSite(t.Context(), g.DatabaseURL, schema, "nats", "drained", "raw")
	if err != nil {
		t.Fatal(err)
	}
	g.exec(g.conn, "CREATE SCHEMA "+schema)
	if err := g.Sweep(t.Context()); err != nil || len(g.gone) > 0 || len(list(t, g.conn, schema)) != 1 {
		t.Errorf("a living site was swept: %v, topics %v", err, g.gone)
	}
	if err := site.lock.release(t.Context()); err != nil { // as its process would leave it
		t.Fatal(err)
	}
	g.sweptAtLast(schema)
	if !slices.Equal(g.gone, []string{"drained " + shop.Group, "raw " + shop.Group}) {
		t.Errorf("topics removed: %q", g.gone)
	}
}

// A benchmark whose broker has been silent until its time was over leaves the notes of
// its topics, and nothing in the database.
func TestASiteNeedsNoBrokerForTheDatabase(t *testing.T) {
	g, schema := newGraveyard(t), "bench_"+newRunID()
	site, err := NoteSite(t.Context(), g.DatabaseURL, schema, "nats", "drained")
	if err != nil {
		t.Fatal(err)
	}
	g.exec(g.conn, "CREATE SCHEMA "+schema)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := site.Close(over, false); err != nil {
		t.Error(err)
	}
	if left := list(t, g.conn, schema); len(left) > 0 || !slices.Equal(g.noted(), []string{schema}) {
		t.Errorf("left over: %v, noted: %v", left, g.noted())
	}
	g.sweptAtLast(schema)
	if !slices.Equal(g.gone, []string{"drained " + shop.Group}) {
		t.Errorf("topics removed: %q", g.gone)
	}
}
