package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"outboxplayground/brokers"
	measure "outboxplayground/core/bench"
	"outboxplayground/core/bus"
)

type benchOptions struct {
	measure.Config
	json bool
}

func benchCommand() *cobra.Command {
	o := benchOptions{}
	cmd := &cobra.Command{
		Use:       "bench drain",
		Short:     "how fast the outbox is on this machine",
		ValidArgs: []string{"drain"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		Long: "drain: fills an outbox and lets the relay empty it, beside a bare loop on the same\n" +
			"table and the bus without a database. Read the ratios: absolute figures say more\n" +
			"about the machine. Exit code 1: something was lost, duplicated or stuck.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchDrain(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Bus, "bus", "", "the bus (default: rabbitmq where it is on, else nats)")
	f.IntVar(&o.Rows, "rows", 20_000, "rows to drain")
	f.IntVar(&o.Batch, "batch", 500, "rows of a claim")
	f.IntVar(&o.Workers, "workers", 1, "relays side by side")
	f.IntVar(&o.PayloadBytes, "payload", 200, "bytes of an event")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object, and nothing else")
	return cmd
}

// benchResult is what was measured, with what it was measured on.
type benchResult struct {
	measure.Drained
	Mode       string `json:"mode"`
	Version    string `json:"version,omitempty"`
	Durability string `json:"durability"`
}

func benchDrain(ctx context.Context, out io.Writer, o benchOptions) error {
	if o.Bus == "" {
		o.Bus = defaultRunBus(ctx)
	}
	l, done, err := labFor(ctx, []string{o.Bus})
	if err != nil {
		return err
	}
	defer done()
	info, url, err := l.Bus(o.Bus)
	if err != nil {
		return err
	}
	o.DatabaseURL, o.Shared = l.DatabaseURL, o.Bus == inMemory
	o.Open = func(ctx context.Context, prefix string) (bus.Bus, error) {
		cfg := brokers.Config{Config: bus.Config{URL: url, Prefix: prefix, MaxUnacked: o.Batch}}
		cfg.RabbitMQ.Settle = -1 // nobody kills the broker
		return brokers.Open(ctx, o.Bus, cfg)
	}
	d, err := measure.Drain(ctx, o.Config, func(stage string) { fmt.Fprintln(os.Stderr, stage) })
	if err != nil {
		return err
	}
	res := benchResult{Drained: d, Mode: info.Mode, Version: info.Version, Durability: durability(o.Bus, d.Postgres)}
	if err := res.write(out, o.json); err != nil {
		return err
	}
	if d.Lost+d.Duplicated+d.Stuck > 0 {
		return &exitError{code: exitNotValid}
	}
	return nil
}

// durability says what an acknowledgement was worth in this run.
func durability(busName, postgres string) string {
	broker := map[string]string{
		"rabbitmq": "durable queue, persistent, mandatory, publisher confirms",
		"kafka":    "acks=all",
		"nats":     "JetStream file storage, PubAck",
		"redis":    "XADD reply, the server's own append-only setting",
		inMemory:   "none: the broker is this process",
	}[busName]
	return broker + "; PostgreSQL " + postgres
}

func (r benchResult) write(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "bus\t%s (%s %s)\n", r.Bus, r.Mode, r.Version)
	fmt.Fprintf(w, "relay\t%.0f events/s\n", r.EventsPerSecond)
	fmt.Fprintf(w, "bare loop\t%.0f events/s\tthe relay is %.2f of it\n", r.ReferencePerSecond, r.EventsPerSecond/r.ReferencePerSecond)
	fmt.Fprintf(w, "bus alone\t%.0f events/s\tthe relay is %.2f of it\n", r.RawPerSecond, r.EventsPerSecond/r.RawPerSecond)
	fmt.Fprintf(w, "settings\t%d rows, batch %d, %d workers, %d bytes\n", r.Rows, r.Batch, r.Workers, r.PayloadBytes)
	fmt.Fprintf(w, "durability\t%s\n", r.Durability)
	fmt.Fprintf(w, "of these\t%d lost, %d duplicated, %d stuck\n", r.Lost, r.Duplicated, r.Stuck)
	return w.Flush()
}
