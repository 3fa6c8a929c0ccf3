package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"outboxplayground/brokers"
	"outboxplayground/core/lab"
)

// The comment that holds the cells. JSON has no need of two dashes in a row, which
// would end it: they are escaped.
const (
	cellsBegin = "<!-- cells\n"
	cellsEnd   = "\n-->\n"
)

// parseGuarantees reads what markdown has written.
func parseGuarantees(text []byte) (g guarantees, err error) {
	_, rest, ok := bytes.Cut(text, []byte(cellsBegin))
	data, _, end := bytes.Cut(rest, []byte(cellsEnd))
	if !ok || !end {
		return g, errors.New("the comment with the cells is not there")
	}
	if err := json.Unmarshal(data, &g); err != nil {
		return g, fmt.Errorf("the cells cannot be read: %w", err)
	}
	if len(g.Cells) == 0 {
		return g, errors.New("there are no cells")
	}
	return g, nil
}

// markdown writes the file.
func (g guarantees) markdown() ([]byte, error) {
	var text bytes.Buffer
	fmt.Fprintf(&text, guaranteesHead, g.AsOf, g.Machine, g.runs(""), lab.DefaultOrders, g.Took, g.Parallel)
	for _, name := range brokers.Names() {
		g.table(&text, name)
	}
	data, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	data = bytes.ReplaceAll(data, []byte("--"), []byte(`-\u002d`))
	data = bytes.ReplaceAll(data, []byte(`{"chapter"`), []byte("\n"+`{"chapter"`))
	fmt.Fprintf(&text, "\n%s%s%s", cellsBegin, data, cellsEnd)
	return text.Bytes(), nil
}

const guaranteesHead = `# Guarantees, measured

What every chapter gives on every bus under every fault. Nothing here is typed: each
cell is an experiment in processes of its own, broken for real, judged from the
tables, and compared with what the chapter declares. This file is written by

` + "```sh" + `
go run ./chapters matrix --markdown docs/guarantees.md
` + "```" + `

Measured on %s (%s): %d experiments of %d orders each, in
%s, %d side by side.

- ✓ measured as declared; a bad outcome that is declared is a lesson. ✗ measured otherwise.
- **ok** every order has its one email · **late** the same, some after the outage ·
  **lost** an order without an email, for good · **phantom** an email without an order ·
  **duplicated** more than one email · **stuck** parked until a person acts · **refused**
  the customer was told no and nothing was kept
- – the fault does not exist there: no relay in the chapter, or no network in memory.
- *sources* is a hash of the Go code that a column rests on: chapter, core and driver.
  A test says which columns were measured on older code.
`

// runs counts the experiments on a bus, on all of them for "".
func (g guarantees) runs(busName string) (n int) {
	for _, c := range g.Cells {
		if c.Measured != nil && (busName == "" || c.Bus == busName) {
			n++
		}
	}
	return n
}

// table writes one bus: faults down, variants across, the sources last.
func (g guarantees) table(to io.Writer, busName string) {
	var heads, faults, servers []string
	at := map[string]guarantee{}
	for _, c := range g.Cells {
		if c.Bus != busName {
			continue
		}
		heads, faults, servers = appendNew(heads, c.head()), appendNew(faults, c.Fault), appendNew(servers, c.Server)
		at[c.head()+c.Fault] = c
	}
	if len(heads) == 0 {
		return
	}
	servers = slices.DeleteFunc(servers, func(s string) bool { return s == "" })
	fmt.Fprintf(to, "\n## %s\n\n%s · %d experiments\n\n| fault | %s |\n|---|%s\n", busName,
		strings.Join(servers, ", "), g.runs(busName), strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, f := range faults {
		fmt.Fprintf(to, "| `%s` |", f)
		for _, h := range heads {
			fmt.Fprintf(to, " %s |", at[h+f].mark())
		}
		fmt.Fprintln(to)
	}
	fmt.Fprint(to, "| *sources* |")
	for _, h := range heads {
		fmt.Fprintf(to, " `%s` |", at[h+faults[0]].Sources)
	}
	fmt.Fprintln(to)
}

func (c guarantee) head() string { return fmt.Sprintf("%d %s", c.Chapter, c.Variant) }

func (c guarantee) mark() string {
	switch {
	case c.Differs != "":
		return "✗ " + strings.ReplaceAll(c.Differs, "|", "/")
	case c.Measured == nil:
		return "–"
	case c.Declared == "ok":
		return "✓ ok"
	}
	return "✓ **" + c.Declared + "**"
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
