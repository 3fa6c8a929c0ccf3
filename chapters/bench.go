package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"outboxplayground/brokers"
	outbox "outboxplayground/chapters/03-outbox"
	measure "outboxplayground/core/bench"
	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
)

// benchOptions are the flags that every benchmark has.
type benchOptions struct {
	measure.Config
	json    bool
	profile string // of a drain: the file
	classic bool   // RabbitMQ's queues
}

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench drain|latency|claim|producer|twophase",
		Short: "how fast the outbox is on this machine",
		Long: "Measures this machine, beside something of the same run: absolute figures say more\n" +
			"about the machine than about the code. Exit code 1: something was lost, duplicated\n" +
			"or stuck; 3: could not run. With --json a line for each measurement.",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return fmt.Errorf("%q is no benchmark: drain, latency, claim, producer or twophase", args)
		},
	}
	cmd.AddCommand(benchDrainCommand(), benchLatencyCommand(), benchClaimCommand(), benchProducerCommand(), benchTwoPhaseCommand())
	return cmd
}

// common adds the flags that every benchmark has.
func (o *benchOptions) common(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Bus, "bus", "", "the bus (default: rabbitmq where it is on, else nats)")
	f.IntVar(&o.PayloadBytes, "payload", 200, "bytes of an event")
	f.BoolVar(&o.json, "json", false, "print each measurement as one JSON object, and nothing else")
	cmd.Args = cobra.NoArgs
	cmd.PreRunE = func(*cobra.Command, []string) error { return noZeros(f) }
}

// queues adds the flag of those in which the kind of RabbitMQ's queue matters.
func (o *benchOptions) queues(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.classic, "classic", false, "on RabbitMQ: a classic queue instead of a quorum queue")
}

// noZeros refuses a zero that somebody has written: to the benchmarks it means "not said".
func noZeros(f *pflag.FlagSet) error {
	for _, name := range []string{"rows", "batch", "workers", "payload"} {
		if given := f.Lookup(name); given != nil && given.Changed && given.Value.String() == "0" {
			return fmt.Errorf("--%s: at least 1", name)
		}
	}
	return nil
}

func benchDrainCommand() *cobra.Command {
	o := benchOptions{}
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "the relay empties an outbox, beside a bare loop and the bus alone",
		Long: "Fills an outbox and lets the relay empty it, beside a bare loop on the same table,\n" +
			"chapter 3's worker, which takes a row at a time, and the bus without a database.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchDrain(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	o.common(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Rows, "rows", 20_000, "rows to drain")
	f.IntVar(&o.Batch, "batch", 500, "rows of a claim")
	f.IntVar(&o.Workers, "workers", 1, "relays side by side")
	o.queues(cmd)
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of the relay to this file, for go tool pprof")
	return cmd
}

// benchPlace is where a benchmark takes place.
type benchPlace struct {
	info lab.BusInfo
	done func()
}

// on brings the database and, for those that publish, the bus, and completes o. The
// caller calls done.
func (o *benchOptions) on(ctx context.Context, publishes bool) (p benchPlace, err error) {
	if o.Bus == "" {
		o.Bus = defaultRunBus(ctx)
	}
	if ok, known := oneOf(o.Bus, brokers.Names()); !ok {
		return p, fmt.Errorf("%w: %q; there are %s", lab.ErrUnknownBus, o.Bus, known)
	}
	if o.classic && o.Bus != brokers.RabbitMQ {
		return p, fmt.Errorf("--classic is a kind of queue of RabbitMQ, not of %s", o.Bus)
	}
	needed := []string{o.Bus}
	if !publishes {
		needed = nil
	}
	l, done, err := labFor(ctx, needed)
	if err != nil {
		return p, err
	}
	o.DatabaseURL, o.Shared, p.done = l.DatabaseURL, o.Bus == inMemory, done
	if !publishes {
		return p, nil
	}
	info, url, err := l.Bus(o.Bus)
	if err != nil {
		done()
		return p, err
	}
	p.info = info
	o.Open = func(ctx context.Context, prefix string) (bus.Bus, error) {
		return openForBench(ctx, o.Bus, url, prefix, o.classic)
	}
	return p, nil
}

// openForBench opens a bus for measurements, with room for a batch in the consumer's hands.
func openForBench(ctx context.Context, name, url, prefix string, classic bool) (bus.Bus, error) {
	cfg := brokers.Config{Config: bus.Config{URL: url, Prefix: prefix, MaxUnacked: 500}}
	cfg.RabbitMQ.Settle, cfg.RabbitMQ.Classic = -1, classic // nobody kills the broker
	return brokers.Open(ctx, name, cfg)
}

// benchStage says on stderr what is under way.
func benchStage(text string) { fmt.Fprintln(os.Stderr, text) }

// benchResult is a drain with what it was measured on.
type benchResult struct {
	measure.Drained
	Mode       string `json:"mode"`
	Version    string `json:"version,omitempty"`
	Durability string `json:"durability"`
}

func benchDrain(ctx context.Context, out io.Writer, o benchOptions) error {
	profile, err := newRelayProfile(o.profile)
	if err != nil {
		return err
	}
	p, err := o.on(ctx, true)
	if err != nil {
		return errors.Join(err, profile.stop())
	}
	defer p.done()
	o.RowByRow = func(db *pgxpool.Pool, b bus.Bus, busName string) func(context.Context) (int, error) {
		return (&outbox.Worker{DB: db, Bus: b, BusName: busName, Log: slog.New(slog.DiscardHandler)}).Step
	}
	o.Log = true
	d, err := measure.Drain(ctx, o.Config, profile.stage)
	if err := errors.Join(err, profile.stop()); err != nil {
		return benchHint(err)
	}
	res := benchResult{Drained: d, Mode: p.info.Mode, Version: p.info.Version, Durability: o.durability(d.Postgres)}
	if o.json {
		err = json.NewEncoder(out).Encode(res)
	} else {
		err = res.write(out)
	}
	return errors.Join(err, unlessClean(d.Lost+d.Duplicated+d.Stuck))
}

// benchHint adds what to do to the errors of servers that are not there.
func benchHint(err error) error {
	if errors.Is(err, bus.ErrUnavailable) {
		return fmt.Errorf("%w\nthe broker went away or was never there: `go run ./chapters doctor` says which are", err)
	}
	return err
}

// unlessClean is the exit code of a measurement in which something went wrong.
func unlessClean(wrong int) error {
	if wrong > 0 {
		return &exitError{code: exitNotValid}
	}
	return nil
}
