package main

import (
	"context"
	"fmt"
	"slices"

	"outboxplayground/brokers"
	"outboxplayground/core/lab"
)

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

func (c *cell) mark() string {
	switch {
	case c.Differs != "":
		return "✗ " + c.Differs
	case c.NA != "":
		return "n/a"
	}
	return "✓ " + c.Declared
}
