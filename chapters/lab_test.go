package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/brokers"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// full tells whether the long runs were asked for: ./infra/test full.
func full() bool { return os.Getenv("OUTBOX_PLAYGROUND_TEST") == "full" }

// bench is a lab in a database of its own, on the shared brokers, whose children
// are this test binary. Whatever is in that database comes from this test.
type bench struct {
	*lab.Lab
	t    *testing.T
	pool *pgxpool.Pool // in the playground's schema
}

func newBench(t *testing.T, buses ...string) *bench {
	t.Helper()
	var known directory
	for _, name := range buses {
		if name != inMemory {
			known.add(named(t.Context(), name, servertest.URL(t, name)))
		}
	}
	db := pgtest.Database(t)
	l, err := newLab(db, known.where)
	if err != nil {
		t.Fatal(err)
	}
	l.Env = append(l.Env, childMark+"="+t.Name())
	if err := pg.MigratePlayground(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Open(db, pg.PlaygroundSchema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &bench{Lab: l, t: t, pool: pool}
}

// env is the environment of a command that shall work where the bench does.
func (b *bench) env() map[string]string {
	env := map[string]string{}
	for _, name := range servers.Names() {
		env[servers.Variable(name)] = os.Getenv(servers.Variable(name))
	}
	env["DATABASE_URL"] = b.DatabaseURL
	return env
}

// load reads a stored run.
func (b *bench) load(t *testing.T, id string) lab.Result {
	t.Helper()
	res, err := lab.Load(t.Context(), b.pool, id)
	if err != nil {
		t.Fatalf("run %s: %v", id, err)
	}
	return res
}

// run makes one experiment; one that cannot be made ends the test.
func (b *bench) run(t *testing.T, spec lab.Spec) lab.Result {
	t.Helper()
	res, err := b.Run(t.Context(), spec, nil)
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	return res
}

func explain(res lab.Result) string {
	var text bytes.Buffer
	if err := res.WriteText(&text); err != nil {
		return err.Error()
	}
	return text.String()
}

// key names a cell.
func (c *cell) key() string {
	return fmt.Sprintf("%d/%s/%s/%s", c.Chapter, c.Variant, c.Bus, c.Fault)
}

// everyCell lists the whole matrix.
func everyCell(t *testing.T) []*cell {
	t.Helper()
	all, err := matrixOptions{buses: brokers.Names(), faults: lab.FaultNames()}.cells()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// covering chooses cells so that every fault meets every variant on a network, and
// every bus, at least once. The buses take turns. Cells that tell a story of their
// own are always there.
func covering(all []*cell) []*cell {
	networked := brokers.Names()[:4]
	turn, seen := 0, map[string]bool{}
	chosen := map[*cell]bool{}
	choose := func(c *cell) {
		chosen[c] = true
		if c.NA == "" {
			seen[c.Fault+"@"+c.Bus] = true
			seen[c.Fault+"/"+c.head()] = seen[c.Fault+"/"+c.head()] || c.Bus != inMemory
		}
	}
	for _, c := range all {
		if _, told := stories()[c.key()]; told || c.NA != "" {
			choose(c)
		}
	}
	for _, c := range all { // each fault of a variant, on the bus whose turn it is
		if c.Bus != networked[0] || c.NA != "" || c.sameAsDefault() || seen[c.Fault+"/"+c.head()] {
			continue
		}
		at := slices.Index(all, c) + turn%len(networked)
		turn++
		if c.windowed() {
			at = slices.Index(all, c) + slices.Index(networked, brokers.NATS)
		}
		choose(all[at])
	}
	for _, c := range all { // what no turn has brought to a bus
		if c.NA == "" && !seen[c.Fault+"@"+c.Bus] {
			choose(c)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *cell) bool { return !chosen[c] })
}

// windowed tells whether the cell's variant is about the window of NATS.
func (c *cell) windowed() bool {
	v, _ := c.lesson().Variant(c.Variant)
	return v.DedupeWindow > 0
}

func (c *cell) lesson() lab.Chapter {
	return contents()[slices.IndexFunc(contents(), func(l lab.Chapter) bool { return l.Number == c.Chapter })]
}

// sameAsDefault tells the cells of a variant that is another only on NATS, by its
// window, from those that the window is about: they are the default's cells again,
// and left to the full run.
func (c *cell) sameAsDefault() bool {
	v, _ := c.lesson().Variant(c.Variant)
	nats := func(v lab.Variant) string {
		return v.Declared[slices.IndexFunc(v.Declared, func(d lab.Declaration) bool { return d.Fault == c.Fault })].On(brokers.NATS)
	}
	return c.windowed() && nats(v) == nats(c.lesson().Variants[0])
}

// The choice is checked by itself: every pair that applies is there.
func TestTheChoiceOfCellsCovers(t *testing.T) {
	all, variants, buses := everyCell(t), map[string]bool{}, map[string]bool{}
	chosen := covering(all)
	for _, c := range chosen {
		if c.NA == "" && c.Bus != inMemory {
			variants[c.Fault+"/"+c.head()] = true
		}
		if c.NA == "" {
			buses[c.Fault+"@"+c.Bus] = true
		}
	}
	runs := 0
	for _, c := range chosen {
		if c.NA == "" {
			runs++
		}
	}
	for _, c := range all {
		switch {
		case c.NA != "":
		case c.Bus != inMemory && !c.sameAsDefault() && !variants[c.Fault+"/"+c.head()]:
			t.Errorf("%s of %s runs on no network", c.Fault, c.head())
		case !buses[c.Fault+"@"+c.Bus]:
			t.Errorf("%s never meets %s", c.Fault, c.Bus)
		}
	}
	for key := range stories() {
		if !slices.ContainsFunc(chosen, func(c *cell) bool { return c.key() == key && c.NA == "" }) {
			t.Errorf("no cell is called %s", key)
		}
	}
	t.Logf("%d of %d cells, %d of them are run", len(chosen), len(all), runs)
}

// labParallel is how many runs go on side by side; most of a run is waiting.
const labParallel = 8

// Chapters against buses against faults, each measured and compared with what the
// chapter declares; then nothing may be left of it anywhere.
func TestMatrix(t *testing.T) {
	t.Parallel()
	b := newBench(t, brokers.Names()...)
	cells := everyCell(t)
	if !full() {
		cells = covering(cells)
	}
	if err := runCells(t.Context(), b.Lab, cells, labParallel); err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		t.Run(c.key(), func(t *testing.T) { b.checkCell(t, c) })
	}
	b.nothingLeft(t)
}

func (b *bench) checkCell(t *testing.T, c *cell) {
	if c.Differs != "" {
		t.Errorf("declared %s: %s", c.Declared, c.Differs)
	}
	if c.Report == nil {
		return
	}
	res := b.load(t, c.Report.ID)
	if check := stories()[c.key()]; check != nil {
		check(t, res)
	}
	if got := len(res.Trails); got != lab.DefaultOrders {
		t.Errorf("%d trails of %d orders are stored", got, lab.DefaultOrders)
	}
	if t.Failed() {
		t.Log(explain(res))
	}
}
