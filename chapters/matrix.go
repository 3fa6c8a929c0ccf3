package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
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
