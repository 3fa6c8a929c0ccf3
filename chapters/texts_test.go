package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// pasted is a shell block of a text with the block that follows it.
type pasted struct{ commands, output string }

var fenced = regexp.MustCompile("(?s)```(\\w*)\n(.*?)```")

func pastedIn(t *testing.T, path string) []pasted {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []pasted
	for _, m := range fenced.FindAllStringSubmatch(string(raw), -1) {
		switch n := len(all) - 1; {
		case m[1] == "sh":
			all = append(all, pasted{commands: m[2]})
		case n >= 0 && all[n].output == "":
			all[n].output = m[2]
		}
	}
	return all
}

var aRun = regexp.MustCompile(`go run \./chapters run (\d+)([^\n]*)`)

// specs are the runs of a block, as far as their flags are spelt out.
func (p pasted) specs() (specs []lab.Spec) {
	for _, m := range aRun.FindAllStringSubmatch(p.commands, -1) {
		s := lab.Spec{Bus: "rabbitmq", Orders: lab.DefaultOrders, Fault: "none"}
		s.Chapter, _ = strconv.Atoi(m[1])
		flags := strings.Fields(m[2])
		for i := 0; i+1 < len(flags); i++ {
			switch value := flags[i+1]; flags[i] {
			case "--bus":
				s.Bus = value
			case "--fault":
				s.Fault = value
			case "--variant":
				s.Variant = value
			case "--orders":
				s.Orders, _ = strconv.Atoi(value)
			}
		}
		specs = append(specs, s)
	}
	return specs
}

func declaredFor(s lab.Spec) string {
	for _, c := range contents() {
		v, ok := c.Variant(s.Variant)
		for _, d := range v.Declared {
			if ok && c.Number == s.Chapter && d.Fault == s.Fault {
				return d.On(s.Bus)
			}
		}
	}
	return ""
}

var (
	measuredLine = regexp.MustCompile(`(?m)^measured +(.*)$`)
	counted      = regexp.MustCompile(`(\d+) (orders|delivered|lost|duplicated|phantom|stuck|refused|pending)`)
)

// reportOf reads a pasted line of counts.
func reportOf(line string) (r lab.Report) {
	r.Valid = audit.False // of no consequence here, but for unknown
	v := &r.Measured
	at := map[string]*int{"orders": &v.Orders, "delivered": &v.Delivered, "lost": &v.Lost, "duplicated": &v.Duplicated,
		"phantom": &v.Phantom, "stuck": &v.Stuck, "refused": &v.Refused, "pending": &v.Pending}
	for _, m := range counted.FindAllStringSubmatch(line, -1) {
		*at[m[2]], _ = strconv.Atoi(m[1])
	}
	return r
}

// Every run that a text tells the reader to make can be made, and the counts pasted
// below it are what its chapter declares.
func TestPastedVerdictsAreTheDeclaredOnes(t *testing.T) {
	texts, err := filepath.Glob("0*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, path := range append(texts, "../README.md") {
		for _, p := range pastedIn(t, path) {
			specs, lines := p.specs(), measuredLine.FindAllStringSubmatch(p.output, -1)
			for i, s := range specs {
				if err := s.Check(contents()); err != nil && !strings.Contains(s.Bus, "$") {
					t.Errorf("%s: %+v: %v", path, s, err)
				}
				if len(lines) != len(specs) || s.Orders != lab.DefaultOrders {
					continue
				}
				compared++
				if diff := lab.Agrees(declaredFor(s), reportOf(lines[i][1])); diff != "" {
					t.Errorf("%s: below `run %d --fault %s --bus %s` stands %q: %s", path, s.Chapter, s.Fault, s.Bus, lines[i][1], diff)
				}
			}
			if len(lines) > 0 && len(lines) != len(specs) {
				t.Errorf("%s: %d runs, %d verdicts below:\n%s", path, len(specs), len(lines), p.commands)
			}
		}
	}
	if compared < 15 {
		t.Errorf("only %d verdicts were compared: is the pattern right?", compared)
	}
}

var guaranteeRow = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| [^|]+ \\|((?: [^|]+ \\|){3,})$")

// The table in README.md says what the chapters declare, and leaves no fault out.
func TestTheTableOfFaultsIsTheDeclaredOne(t *testing.T) {
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := guaranteeRow.FindAllStringSubmatch(string(raw), -1)
	if len(rows) != len(lab.FaultNames()) {
		t.Fatalf("%d rows for %d faults", len(rows), len(lab.FaultNames()))
	}
	for i, row := range rows {
		if want := lab.FaultNames()[i]; row[1] != want {
			t.Errorf("row %d is about %s, want %s", i+1, row[1], want)
		}
		cells := strings.Split(strings.TrimSuffix(row[2], "|"), "|")
		for j, s := range tableColumns(t, len(cells)) {
			s.Fault = row[1]
			s.Bus = "rabbitmq"
			want := declaredFor(s)
			if s.Bus = "nats"; declaredFor(s) != want {
				want += ", nats: " + declaredFor(s)
			}
			if got := strings.TrimSpace(strings.ReplaceAll(cells[j], "**", "")); got != want {
				t.Errorf("%s, chapter %d %s: the table says %q, chapter.go %q", s.Fault, s.Chapter, s.Variant, got, want)
			}
		}
	}
}

// tableColumns are both variants of chapter 1 and the first one of every other.
func tableColumns(t *testing.T, cells int) []lab.Spec {
	t.Helper()
	columns := []lab.Spec{{Chapter: 1}, {Chapter: 1, Variant: "publish-first"}}
	for _, c := range contents()[1:] {
		columns = append(columns, lab.Spec{Chapter: c.Number})
	}
	if cells != len(columns) {
		t.Fatalf("%d cells in a row for %d columns", cells, len(columns))
	}
	return columns
}
