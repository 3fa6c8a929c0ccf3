package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"outboxplayground/brokers"
	"outboxplayground/core/lab"
)

type matrixOptions struct {
	chapters []int
	buses    []string
	faults   []string
	parallel int
	json     bool
	markdown string
}

func matrixCommand() *cobra.Command {
	o := matrixOptions{}
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "every chapter on every bus under every fault, beside what is declared",
		Long: "Runs every cell and compares it with its chapter's declaration. Exit code 0: every\n" +
			"measured cell equals its declaration; 1: one differs; 3: could not run.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return matrix(cmd.Context(), cmd.OutOrStdout(), o) },
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.chapters, "chapters", nil, "only these chapters")
	f.StringSliceVar(&o.buses, "buses", brokers.Names(), "only these buses")
	f.StringSliceVar(&o.faults, "faults", lab.FaultNames(), "only these faults")
	f.IntVar(&o.parallel, "parallel", 4, "how many runs side by side, 1 to 16")
	f.BoolVar(&o.json, "json", false, "print one JSON array of cells, and nothing else")
	f.StringVar(&o.markdown, "markdown", "", "write the whole matrix to this file, which is docs/guarantees.md")
	return cmd
}

// cell is one square of the table.
type cell struct {
	Chapter  int         `json:"chapter"`
	Variant  string      `json:"variant"`
	Bus      string      `json:"bus"`
	Fault    string      `json:"fault"`
	Declared string      `json:"declared"`
	Differs  string      `json:"differs,omitempty"` // "" when measured equals declared
	NA       string      `json:"not_applicable,omitempty"`
	Report   *lab.Report `json:"report,omitempty"`
}

func matrix(ctx context.Context, out io.Writer, o matrixOptions) error {
	if o.parallel < 1 || o.parallel > 16 {
		return errors.New("--parallel: 1 to 16")
	}
	cells, err := o.cells()
	if err != nil {
		return err
	}
	if err := o.whole(); err != nil {
		return err
	}
	l, done, err := labFor(ctx, o.buses)
	if err != nil {
		return err
	}
	defer done()
	begin := time.Now()
	if err := runCells(ctx, l, cells, o.parallel); err != nil {
		return err
	}
	took, differ := time.Since(begin), 0
	for _, c := range cells {
		if c.Differs != "" {
			differ++
		}
	}
	fmt.Fprintf(os.Stderr, "%d cells in %s, %d differ from what is declared\n", len(cells), brief(took), differ)
	switch {
	case o.markdown != "":
		err = writeGuarantees(o.markdown, cells, took, o.parallel)
	case o.json:
		err = json.NewEncoder(out).Encode(cells)
	default:
		err = writeMatrix(out, cells)
	}
	if err == nil && differ > 0 {
		err = &exitError{code: exitNotValid}
	}
	return err
}

// whole refuses to write a part of the matrix: the file of guarantees is about
// everything.
func (o matrixOptions) whole() error {
	part := len(o.chapters) > 0 || len(o.buses) < len(brokers.Names()) || len(o.faults) < len(lab.FaultNames())
	if o.markdown != "" && part {
		return errors.New("--markdown is about the whole matrix: leave out --chapters, --buses and --faults")
	}
	if o.markdown == "" {
		return nil
	}
	// Found out now, not when everything has been measured: the file has a hash of the sources.
	if _, err := os.Stat(filepath.Join(filepath.Dir(o.markdown), "..", "chapters")); err != nil {
		return fmt.Errorf("--markdown takes docs/guarantees.md in the source tree: %w", err)
	}
	return nil
}

// cells lists what there is to run, the cells that do not apply included. A name that
// nobody knows is an error: left out in silence, it would turn a check into nothing.
func (o matrixOptions) cells() ([]*cell, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var cells []*cell
	for _, c := range contents() {
		if len(o.chapters) > 0 && !slices.Contains(o.chapters, c.Number) {
			continue
		}
		for _, v := range c.Variants {
			for _, d := range v.Declared {
				if ok, _ := oneOf(d.Fault, o.faults); !ok {
					continue
				}
				for _, b := range o.buses {
					f, _ := lab.FaultNamed(d.Fault)
					cells = append(cells, &cell{Chapter: c.Number, Variant: v.Name, Bus: b,
						Fault: d.Fault, Declared: d.On(b), NA: f.NotApplicable(c, b)})
				}
			}
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("nothing to run: chapters %v, buses %v, faults %v", o.chapters, o.buses, o.faults)
	}
	return cells, nil
}

func (o matrixOptions) check() error {
	for _, n := range o.chapters {
		if !slices.ContainsFunc(contents(), func(c lab.Chapter) bool { return c.Number == n }) {
			return fmt.Errorf("--chapters: there is no chapter %d; `list` shows them", n)
		}
	}
	for _, name := range o.faults {
		if ok, all := oneOf(name, lab.FaultNames()); !ok {
			return fmt.Errorf("--faults: there is no fault %q; there are %s", name, all)
		}
	}
	for _, name := range o.buses {
		if ok, all := oneOf(name, brokers.Names()); !ok {
			return fmt.Errorf("--buses: there is no bus %q; there are %s", name, all)
		}
	}
	return nil
}

// runCells runs the cells a few at a time and says how far it is.
func runCells(ctx context.Context, l *lab.Lab, cells []*cell, parallel int) error {
	var mu sync.Mutex
	done := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, c := range cells {
		g.Go(func() error {
			if err := c.run(ctx, l); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			fmt.Fprintf(os.Stderr, "[%3d/%3d] %s\n", done, len(cells), c)
			return nil
		})
	}
	return g.Wait()
}

// run makes one cell's experiment. One that could not be made differs.
func (c *cell) run(ctx context.Context, l *lab.Lab) error {
	if c.NA != "" {
		if c.Declared != "n/a" {
			c.Differs = "declared " + c.Declared + ", but it does not apply: " + c.NA
		}
		return nil
	}
	spec := lab.Spec{Chapter: c.Chapter, Variant: c.Variant, Bus: c.Bus, Fault: c.Fault}
	res, err := l.Run(ctx, spec, nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		c.Differs = "could not run: " + err.Error()
		return nil
	}
	c.Report, c.Differs = &res.Report, lab.Agrees(c.Declared, res.Report)
	return keep(ctx, l, res)
}

func (c *cell) String() string {
	text := fmt.Sprintf("%d %-13s %-9s %-19s %s", c.Chapter, c.Variant, c.Bus, c.Fault, c.Declared)
	if c.Differs != "" {
		text += "  ✗ " + c.Differs
	}
	return text
}

// writeMatrix writes one table a bus: faults down, chapters and variants across.
func writeMatrix(out io.Writer, cells []*cell) error {
	for _, busName := range brokers.Names() {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		rows, heads, at := []string{}, []string{}, map[string]string{}
		for _, c := range cells {
			if c.Bus != busName {
				continue
			}
			head := fmt.Sprintf("%d %s", c.Chapter, c.Variant)
			if ok, _ := oneOf(head, heads); !ok {
				heads = append(heads, head)
			}
			if ok, _ := oneOf(c.Fault, rows); !ok {
				rows = append(rows, c.Fault)
			}
			at[head+"/"+c.Fault] = c.mark()
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", busName, strings.Join(heads, "\t"))
		for _, row := range rows {
			fmt.Fprintf(w, "%s", row)
			for _, head := range heads {
				fmt.Fprintf(w, "\t%s", at[head+"/"+row])
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (c *cell) mark() string {
	switch {
	case c.Differs != "":
		return "✗ " + c.Differs
	case c.NA != "":
		return "n/a"
	}
	return "✓ " + c.Declared
}
