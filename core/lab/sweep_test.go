package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// graveyard is a database with what dead processes have left in it, and a lab that
// sweeps it.
type graveyard struct {
	*Lab
	t    *testing.T
	conn *pgx.Conn
	away map[string]error // why a bus is not at hand
	gone []string         // topics that were removed, with their group
}

func newGraveyard(t *testing.T) *graveyard {
	t.Helper()
	g := &graveyard{t: t, away: map[string]error{}}
	g.Lab = &Lab{DatabaseURL: pgtest.Database(t),
		Bus: func(name string) (BusInfo, string, error) { return BusInfo{}, "", g.away[name] },
		Open: func(string, string) OpenBus {
			return func(context.Context, BusOptions) (bus.Bus, error) { return removing{new(nobus), &g.gone}, nil }
		}}
	if err := pg.MigratePlayground(t.Context(), g.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	var err error
	if g.conn, err = pgx.Connect(t.Context(), g.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.conn.Close(context.Background()) })
	return g
}

func (g *graveyard) exec(conn *pgx.Conn, statements ...string) {
	g.t.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(g.t.Context(), sql); err != nil {
			g.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// bury makes what a run leaves behind, with statements in which @ stands for its schema,
// and returns the schema.
func (g *graveyard) bury(busName string, statements ...string) string {
	g.t.Helper()
	schema := "run_" + newRunID()
	if err := remember(g.t.Context(), g.conn, schema, busName, "safe"); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = dropAll(context.Background(), g.conn, schema) }) // else a database with it could not be dropped
	for _, sql := range append([]string{`CREATE SCHEMA @`, `CREATE TABLE @.orders (id INT)`}, statements...) {
		g.exec(g.conn, strings.ReplaceAll(sql, "@", schema))
	}
	return schema
}

// A slot, and a transaction that is prepared, as the chapters leave them.
func slotLeft() []string {
	return []string{`SELECT pg_create_logical_replication_slot('@_x', 'pgoutput')`, `CREATE PUBLICATION @_x FOR TABLE @.orders`}
}

func preparedLeft() []string {
	return []string{`BEGIN`, `LOCK TABLE @.orders IN ROW EXCLUSIVE MODE`, `PREPARE TRANSACTION '@.a'`}
}

// noted lists the schemas that are still noted.
func (g *graveyard) noted() []string {
	g.t.Helper()
	rows, err := g.conn.Query(g.t.Context(), listSchemas)
	if err != nil {
		g.t.Fatal(err)
	}
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		g.t.Fatal(err)
	}
	return schemas
}

// sweptAtLast sweeps until nothing of a schema is left, as far as it is a sweep's to
// remove: the database notices a moment later that a sweep has ended.
func (g *graveyard) sweptAtLast(schema string) {
	g.t.Helper()
	err := poll(g.t.Context(), func() (bool, error) {
		err := g.Sweep(g.t.Context())
		return !slices.Contains(g.noted(), schema), err
	})
	if left := list(g.t, g.conn, schema); err != nil || len(left) > 0 {
		g.t.Errorf("left over of %s: %v, %v", schema, left, err)
	}
}

// with is the lab with connections that have a setting.
func (g *graveyard) with(setting string) *Lab {
	separator := " "
	switch {
	case strings.Contains(g.DatabaseURL, "?"):
		separator = "&"
	case strings.Contains(g.DatabaseURL, "://"):
		separator = "?"
	}
	return &Lab{DatabaseURL: g.DatabaseURL + separator + setting, Bus: g.Bus, Open: g.Open}
}

func sorted(s ...string) []string { return slices.Sorted(slices.Values(s)) }

// A sweep that is stopped in the middle, by whatever it is, has forgotten nothing: the
// next one goes on. What stops it here is a session with a lock on a table. That the
// run's bus is not at hand does not silence it, and other dead runs are swept.
func TestASweepThatFailsForgetsNothing(t *testing.T) {
	g := newGraveyard(t)
	g.away["kafka"] = ErrBusStarting
	stuck, free := g.bury("inmemory"), g.bury("inmemory", preparedLeft()...)
	stuckToo := g.bury("kafka")
	holder, err := pgx.Connect(t.Context(), g.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	g.exec(holder, "BEGIN", "LOCK TABLE "+stuck+".orders, "+stuckToo+".orders")
	impatient := g.with("lock_timeout=100")
	err = impatient.Sweep(t.Context())
	if err == nil || !strings.Contains(err.Error(), stuck) || !strings.Contains(err.Error(), stuckToo) || strings.Contains(err.Error(), free) {
		t.Errorf("the sweep says %v, want an error about each of %s and %s", err, stuck, stuckToo)
	}
	if noted := g.noted(); !slices.Equal(noted, sorted(stuck, stuckToo)) || len(list(t, g.conn, free)) > 0 {
		t.Errorf("noted: %v, left over of the free one: %v", noted, list(t, g.conn, free))
	}
	g.exec(holder, "ROLLBACK")
	g.away = nil
	g.sweptAtLast(stuck)
	g.sweptAtLast(stuckToo)
}

// What a dead run has in the database needs no broker. Only the note of its topic waits
// for a sweep that has the bus, silently if this process does not use it.
func TestASweepNeedsNoBrokerForTheDatabase(t *testing.T) {
	g := newGraveyard(t)
	g.away = map[string]error{"kafka": ErrBusStarting, "redis": ErrBusOff}
	slot := g.bury("kafka", slotLeft()...)
	prepared, living := g.bury("redis", preparedLeft()...), g.bury("nats", preparedLeft()...)
	alive, err := takeLock(t.Context(), g.DatabaseURL, living)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.release(context.Background())
	err = g.Sweep(t.Context())
	if !errors.Is(err, ErrBusOff) || errors.Is(err, ErrBusStarting) {
		t.Errorf("the sweep says %v, want the bus that is off and not the one that is not used", err)
	}
	if left := append(list(t, g.conn, slot), list(t, g.conn, prepared)...); len(left) > 0 || len(g.gone) > 0 {
		t.Errorf("left over: %v; topics removed: %v", left, g.gone)
	}
	if noted := g.noted(); !slices.Equal(noted, sorted(slot, prepared, living)) {
		t.Errorf("noted: %v, want all: their topics are still there", noted)
	}
	g.away = nil // both are at hand
	g.sweptAtLast(slot)
	g.sweptAtLast(prepared)
	if err := g.Sweep(t.Context()); err != nil || !slices.Equal(g.gone, []string{"safe " + shop.Group, "safe " + shop.Group}) {
		t.Errorf("one sweep more: %v; topics removed: %v, want each once", err, g.gone)
	}
	if left := list(t, g.conn, living); len(left) != 2 || !slices.Equal(g.noted(), []string{living}) {
		t.Errorf("of the living run there are %v, noted %v", left, g.noted())
	}
}

// Whether a run lives is not to be told where the question fails. The run is spared,
// and the failure is said. What fails here is a function before PostgreSQL's own.
func TestASweepThatCannotAskWhoLivesSaysSo(t *testing.T) {
	g := newGraveyard(t)
	dead := g.bury("inmemory")
	g.exec(g.conn, `CREATE FUNCTION public.pg_try_advisory_lock(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT 1/0 = 1'`)
	lost := g.with("search_path=public,pg_catalog")
	if err := lost.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Errorf("the sweep says %v", err)
	}
	if left := list(t, g.conn, dead); len(left) != 1 || !slices.Equal(g.noted(), []string{dead}) {
		t.Errorf("the sweep left %v, noted %v", left, g.noted())
	}
}
