package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// docs/guarantees.md is what a matrix has written, cell by cell, and no cell
// contradicts what its chapter declares today. Cells that were measured on older
// code, and those not measured yet, are named but are no failure.
func TestGuarantees(t *testing.T) {
	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatalf("%v: write it with `go run ./chapters matrix --markdown docs/guarantees.md`", err)
	}
	g, err := parseGuarantees(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := g.markdown()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, text) {
		t.Error("docs/guarantees.md is not what its cells say: it was changed by hand, or its form has changed")
	}
	for _, wrong := range g.contradictions(everyCell(t)) {
		t.Error(wrong)
	}
	stale, err := g.stale("..", everyCell(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stale {
		t.Log("stale: " + s)
	}
}

// contradictions names the cells that do not agree with what is declared now.
func (g guarantees) contradictions(now []*cell) (wrong []string) {
	for _, c := range now {
		i := slices.IndexFunc(g.Cells, c.is)
		if i < 0 {
			continue
		}
		old := g.Cells[i]
		switch {
		case old.Measured == nil && old.Differs != "":
			wrong = append(wrong, c.key()+": "+old.Differs)
		case old.Measured == nil && c.NA == "":
			wrong = append(wrong, c.key()+": it was not measured")
		case old.Measured == nil:
		default:
			r := lab.Report{Valid: old.Valid, Measured: *old.Measured, Late: old.Late}
			if diff := lab.Agrees(c.Declared, r); diff != "" {
				wrong = append(wrong, c.key()+": declared "+c.Declared+": "+diff)
			}
		}
	}
	return wrong
}

// stale names the columns whose sources have changed since, and cells that are new.
func (g guarantees) stale(root string, now []*cell) (names []string, err error) {
	hashes := map[string]string{}
	for _, c := range now {
		column := fmt.Sprintf("%d on %s", c.Chapter, c.Bus)
		if hashes[column] == "" {
			if hashes[column], err = sources(root, c.Chapter, c.Bus); err != nil {
				return nil, err
			}
		}
		i := slices.IndexFunc(g.Cells, c.is)
		switch {
		case i < 0:
			names = appendNew(names, c.head()+" on "+c.Bus+": not all cells are measured")
		case g.Cells[i].Sources != hashes[column]:
			names = appendNew(names, c.head()+" on "+c.Bus+": measured on "+g.Cells[i].Sources+", the sources are "+hashes[column])
		}
	}
	return names, nil
}

func (c *cell) is(g guarantee) bool {
	return c.Chapter == g.Chapter && c.Variant == g.Variant && c.Bus == g.Bus && c.Fault == g.Fault
}

func (c *cell) head() string { return guarantee{Chapter: c.Chapter, Variant: c.Variant}.head() }

// What the check must be able to see, on a table of its own.
func TestGuaranteesCheckCatches(t *testing.T) {
	measured := func(c *cell, v audit.Verdict) *cell {
		c.Report = &lab.Report{Valid: v.Valid(), Measured: v, Mode: "real", Version: "1 -- 2"}
		c.Differs = lab.Agrees(c.Declared, *c.Report)
		return c
	}
	all := everyCell(t)
	find := func(key string) *cell {
		return all[slices.IndexFunc(all, func(c *cell) bool { return c.key() == key })]
	}
	none := measured(find("1/write-first/nats/none"), audit.Verdict{Orders: 47, Delivered: 47})
	down := measured(find("1/write-first/nats/broker-down"), audit.Verdict{Orders: 47, Delivered: 12, Lost: 35})
	na := find("1/write-first/inmemory/broker-down")
	g, err := gather("..", []*cell{none, down, na}, time.Minute, 4)
	if err != nil {
		t.Fatal(err)
	}
	text, err := g.markdown()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| `none` | ✓ ok |", "| `broker-down` | ✓ **lost 35** |", "| `broker-down` | – |", "real 1 -- 2 · 2 experiments"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	read, err := parseGuarantees(text)
	if err != nil || len(read.Cells) != 3 || read.Cells[0].Server != "real 1 -- 2" {
		t.Fatalf("%v: %+v", err, read)
	}
	now := []*cell{none, down, na}
	if wrong := read.contradictions(now); len(wrong) != 0 {
		t.Errorf("nothing is wrong, and yet: %v", wrong)
	}
	if stale, err := read.stale("..", now); err != nil || len(stale) != 0 {
		t.Errorf("nothing is stale, and yet: %v, %v", stale, err)
	}
	read.Cells[0].Sources = "0000000000"
	if stale, _ := read.stale("..", append(now, find("2/after-commit/nats/none"))); len(stale) != 2 {
		t.Errorf("one changed, one new: %v", stale)
	}
	read.Cells[1].Measured.Lost = 34
	read.Cells[0].Valid = audit.Unknown
	if wrong := read.contradictions(now); len(wrong) != 2 {
		t.Errorf("one differs, one is unknown: %v", wrong)
	}
	for _, bad := range []string{"", "# Guarantees", cellsBegin + "{" + cellsEnd, cellsBegin + "{}" + cellsEnd} {
		if _, err := parseGuarantees([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// The hash follows the code of the chapter, the core and the driver, and nothing else.
func TestSourcesOfACell(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(root+"/"+path[:strings.LastIndex(path, "/")], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+"/"+path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		t.Helper()
		h, err := sources(root, 1, "nats")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, f := range []string{"chapters/01-dual-write/order.go", "core/lab/run.go", "brokers/nats/nats.go"} {
		write(f, "package x")
	}
	first := hash()
	for _, f := range []string{"core/lab/run_test.go", "brokers/kafka/kafka.go", "chapters/02-after-commit/order.go", "core/README.md"} {
		if write(f, "x"); hash() != first {
			t.Errorf("%s changes the hash", f)
		}
	}
	for _, f := range []string{"core/lab/run.go", "brokers/nats/nats.go", "chapters/01-dual-write/order.go", "core/new.go"} {
		before := hash()
		if write(f, "package y"); hash() == before {
			t.Errorf("%s does not change the hash", f)
		}
	}
	if _, err := sources(t.TempDir(), 1, "nats"); err == nil {
		t.Error("a folder without sources has a hash")
	}
}
