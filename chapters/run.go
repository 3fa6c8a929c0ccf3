package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

type runOptions struct {
	spec    lab.Spec
	predict int
	repeat  int
	json    bool
}

func runCommand() *cobra.Command {
	o := runOptions{}
	cmd := &cobra.Command{
		Use:   "run CHAPTER",
		Short: "one experiment: a chapter on a bus under a fault, and the measured verdict",
		Long: "One experiment in processes of its own, broken for real. Exit code 0: valid; 1: not\n" +
			"valid; 2: unknown (the fault did not hit, or the end was not seen); 3: could not run.\n\n" +
			"Faults: " + wrapNames(lab.FaultNames()),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.spec.Chapter, err = strconv.Atoi(args[0]); err != nil {
				return fmt.Errorf("%q is not the number of a chapter; `list` shows them", args[0])
			}
			if cmd.Flags().Changed("predict") {
				o.spec.Predicted = &o.predict
			}
			return runExperiments(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.spec.Bus, "bus", "", "the bus (default: rabbitmq where it is on, else nats)")
	f.StringVar(&o.spec.Fault, "fault", "none", "what to break")
	f.StringVar(&o.spec.Variant, "variant", "", "the chapter's variant (default: its first)")
	f.IntVar(&o.spec.Orders, "orders", lab.DefaultOrders, "how many orders")
	f.Uint64Var(&o.spec.Seed, "seed", 0, "moves the fault to other orders; 0 leaves it where the article has it")
	f.DurationVar(&o.spec.Outage, "outage", 0, "how long an outage lasts at least, for example 30s")
	f.IntVar(&o.predict, "predict", 0, "how many events you expect to be delivered")
	f.StringVar(&o.spec.PredictedWhat, "predict-what", "", "what --predict counts instead: "+strings.Join(lab.Figures()[1:], ", "))
	f.IntVar(&o.repeat, "repeat", 1, "run it so many times")
	f.BoolVar(&o.json, "json", false, "print the report as one JSON object a run, and nothing else")
	return cmd
}

func wrapNames(names []string) string {
	text, width := "", 8
	for i, n := range names {
		if i > 0 {
			text += ", "
		}
		if width += len(n) + 2; width > 80 {
			text, width = text+"\n", len(n)
		}
		text += n
	}
	return text
}

// defaultRunBus is rabbitmq where it can be had, else nats.
func defaultRunBus(ctx context.Context) string {
	if examine(ctx, "rabbitmq", nil).Mode != "off" {
		return "rabbitmq"
	}
	return "nats"
}

func runExperiments(ctx context.Context, out io.Writer, o runOptions) error {
	if o.spec.Bus == "" {
		o.spec.Bus = defaultRunBus(ctx)
	}
	if err := o.spec.Check(contents()); err != nil {
		return err
	}
	if o.spec.Orders < 1 { // a Spec takes 0 for "not said"
		return fmt.Errorf("--orders: 1 to %d", lab.MaxOrders)
	}
	if o.predict < 0 {
		return errors.New("--predict: 0 or more")
	}
	if o.repeat < 1 || o.repeat > 1000 {
		return errors.New("--repeat: 1 to 1000")
	}
	l, done, err := labFor(ctx, []string{o.spec.Bus})
	if err != nil {
		return err
	}
	defer done()
	worst := audit.True
	for range o.repeat {
		res, err := l.Run(ctx, o.spec, progressLine(os.Stderr))
		if err != nil {
			return err
		}
		if err := keep(ctx, l, res); err != nil {
			return err
		}
		if o.json {
			err = json.NewEncoder(out).Encode(res.Report)
		} else {
			err = res.WriteText(out)
		}
		if err != nil {
			return err
		}
		worst = worse(worst, res.Report.Valid)
	}
	return verdictExit(worst)
}

// worse prefers a refutation to an unknown, and that to a confirmation.
func worse(a, b audit.Validity) audit.Validity {
	for _, v := range []audit.Validity{audit.False, audit.Unknown} {
		if a == v || b == v {
			return v
		}
	}
	return audit.True
}

// progressLine prints a line at every stage and now and then in between.
func progressLine(to io.Writer) func(lab.Progress) {
	var stage string
	var last time.Time
	return func(p lab.Progress) {
		if p.Stage == stage && (p.Done == p.Total || time.Since(last) < time.Second) {
			return
		}
		stage, last = p.Stage, time.Now()
		fmt.Fprintf(to, "%-10s %d of %d orders\n", p.Stage, p.Done, p.Total)
	}
}
