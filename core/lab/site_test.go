package lab

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
)

// removing is a double: a bus that remembers what was removed from it.
type removing struct {
	*nobus
	gone *[]string
}

func (b removing) Remove(_ context.Context, topic string, groups ...string) error {
	*b.gone = append(*b.gone, topic+" "+groups[0])
	return nil
}

func (removing) Close() error { return nil }

// A benchmark that was killed leaves what a killed run leaves, and it goes the same way;
// one that lives is spared.
func TestASweepTakesTheSiteOfADeadProcessOnly(t *testing.T) {
	ctx, url, schema := t.Context(), pgtest.Database(t), "bench_ab12"
	var gone []string
	l := &Lab{DatabaseURL: url, Bus: func(string) (BusInfo, string, error) { return BusInfo{}, "", nil },
		Open: func(string, string) OpenBus {
			return func(context.Context, BusOptions) (bus.Bus, error) { return removing{new(nobus), &gone}, nil }
		}}
	site, err := NoteSite(ctx, url, schema, "nats", "drained", "raw")
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.MigrateChapter(ctx, url, schema, 3); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := l.Sweep(ctx); err != nil || len(gone) > 0 || len(list(t, conn, schema)) != 1 {
		t.Errorf("a living site was swept: %v, topics %v", err, gone)
	}
	if err := site.Close(ctx, false); err != nil { // as its process would leave it
		t.Fatal(err)
	}
	if err := l.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	slices.Sort(gone)
	if left := list(t, conn, schema); len(left) > 0 || !slices.Equal(gone, []string{"drained " + shop.Group, "raw " + shop.Group}) {
		t.Errorf("left over: %v; topics removed: %q", left, gone)
	}
}
