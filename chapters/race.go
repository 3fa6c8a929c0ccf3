package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
)

// The two sides of a race, by number of chapter.
const (
	raceNaive  = 1
	raceOutbox = 4
)

type raceOptions struct {
	count int
	bus   string
	json  bool
}

func raceCommand() *cobra.Command {
	o := raceOptions{}
	cmd := &cobra.Command{
		Use:   "race",
		Short: "the naive way beside the outbox, both under the same real outage",
		Long: fmt.Sprintf("Chapter %d beside chapter %d, in processes of their own, through one real outage.\n", raceNaive, raceOutbox) +
			"Exit code 0: the outage struck and nothing is pending, so the numbers are the last\n" +
			"word, whoever lost events; 2: they prove nothing; 3: could not run.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return race(cmd.Context(), cmd.OutOrStdout(), o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.count, "count", lab.DefaultOrders, fmt.Sprintf("how many orders each side gets, 1 to %d", lab.MaxRace))
	f.StringVar(&o.bus, "bus", "", "the bus (default: rabbitmq where it is on, else nats)")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object, and nothing else")
	return cmd
}

func race(ctx context.Context, out io.Writer, o raceOptions) error {
	if o.count < 1 || o.count > lab.MaxRace {
		return fmt.Errorf("--count: 1 to %d", lab.MaxRace)
	}
	if o.bus == "" {
		o.bus = defaultRunBus(ctx)
	}
	l, done, err := labFor(ctx, []string{o.bus})
	if err != nil {
		return err
	}
	defer done()
	results, err := pg.Open(l.DatabaseURL, pg.PlaygroundSchema, pg.Options{MaxConns: 1})
	if err != nil {
		return err
	}
	defer results.Close()
	res, err := runRace(ctx, l, results, o.count, o.bus, raceLine(os.Stderr))
	if err != nil {
		return err
	}
	if o.json {
		err = json.NewEncoder(out).Encode(res)
	} else {
		err = res.WriteText(out)
	}
	if err == nil && !res.Conclusive {
		err = &exitError{code: exitUnknown}
	}
	return err
}

// runRace makes a race and keeps the reports of both sides.
func runRace(ctx context.Context, l *lab.Lab, results pg.DB, count int, busName string,
	tell func(lab.Progress)) (lab.RaceResult, error) {
	spec := lab.RaceSpec{Naive: raceNaive, Outbox: raceOutbox, Count: count, Bus: busName}
	res, runs, err := l.Race(ctx, spec, tell)
	if err != nil {
		return res, err
	}
	for _, r := range runs {
		if err := lab.Save(ctx, results, r); err != nil {
			return res, err
		}
	}
	return res, nil
}

// raceLine prints the progress of each side.
func raceLine(to io.Writer) func(lab.Progress) {
	sides := map[string]func(lab.Progress){}
	return func(p lab.Progress) {
		side := p.Text
		if sides[side] == nil {
			sides[side] = progressLine(to)
		}
		p.Stage = side + " " + p.Stage
		sides[side](p)
	}
}
