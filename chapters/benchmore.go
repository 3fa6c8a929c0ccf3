package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	measure "outboxplayground/core/bench"
)

type latencyOptions struct {
	benchOptions
	rates []int
	poll  time.Duration
	gap   time.Duration
	rest  time.Duration
}

func benchLatencyCommand() *cobra.Command {
	o := latencyOptions{}
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "from COMMIT to the consumer: polling, and a relay that is woken",
		Long: "Places orders at a steady rate and takes the time from each COMMIT to the moment at\n" +
			"which a consumer holds the event: with a relay that polls every 500, 100 and 50 ms,\n" +
			"with one that the producer wakes (wake), and with one that a trigger notifies\n" +
			"(notify), and with one that reads the log (log). At rest: statements a second, idle.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchLatency(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	o.common(cmd)
	o.queues(cmd)
	f := cmd.Flags()
	f.IntSliceVar(&o.rates, "rate", []int{50, 500}, "orders a second")
	f.IntVar(&o.Rows, "rows", 0, "orders of a measurement (default: 4 s of them)")
	f.IntVar(&o.Batch, "batch", 100, "rows of a claim")
	f.DurationVar(&o.poll, "poll", 0, "measure polling at this interval, and no other way")
	f.DurationVar(&o.gap, "gap", -1, "measure notify with this gap between claims, and no other way")
	f.DurationVar(&o.rest, "rest", 3*time.Second, "how long the relay is watched at rest")
	return cmd
}

// wakers lists the ways that are measured. A chapter with another one adds it here.
func (o latencyOptions) wakers() []measure.Waker {
	if o.poll > 0 {
		return []measure.Waker{measure.Poll(o.poll)}
	}
	if o.gap >= 0 {
		return []measure.Waker{measure.Notify(o.gap)}
	}
	return []measure.Waker{measure.Poll(500 * time.Millisecond), measure.Poll(100 * time.Millisecond),
		measure.Poll(50 * time.Millisecond), measure.Wake(), measure.Notify(0), measure.Log()}
}

// delayedResult is a latency with what it was measured on.
type delayedResult struct {
	measure.Delayed
	Mode       string `json:"mode"`
	Version    string `json:"version,omitempty"`
	Durability string `json:"durability"`
}

func benchLatency(ctx context.Context, out io.Writer, o latencyOptions) error {
	if o.poll < 0 || o.rest <= 0 || o.rest > time.Minute {
		return errors.New("--poll is an interval such as 50ms, --rest one of up to 1m")
	}
	if slices.Contains(o.rates, 0) { // a Load takes 0 for "not said"
		return errors.New("--rate: 1 to 10,000 orders a second")
	}
	p, err := o.on(ctx, true)
	if err != nil {
		return err
	}
	defer p.done()
	lines := &benchLines{out: out, json: o.json, heading: fmt.Sprintf("%s (%s %s); COMMIT to consumer, ms\n%-11s %8s %9s %9s %9s %16s",
		o.Bus, p.info.Mode, p.info.Version, "worker", "orders", "p50", "p99", "max", "queries/s idle")}
	wrong := 0
	for _, w := range o.wakers() {
		for _, rate := range o.rates {
			d, err := measure.Latency(ctx, o.Config, measure.Load{Rate: rate, Waker: w, Rest: o.rest}, benchStage)
			if err != nil {
				return benchHint(err)
			}
			wrong += d.Lost + d.Duplicated + d.Stuck
			if err := lines.delayed(delayedResult{d, p.info.Mode, p.info.Version, o.durability(d.Postgres)}); err != nil {
				return err
			}
		}
	}
	return unlessClean(wrong)
}

type claimOptions struct {
	benchOptions
	measure.Growth
	snapshot time.Duration
}

func benchClaimCommand() *cobra.Command {
	o := claimOptions{}
	cmd := &cobra.Command{
		Use:   "claim",
		Short: "what a claim of 100 rows costs as the table grows, or under a held snapshot",
		Long: "Claims 100 rows over growing numbers of pending and sent rows, with the playground's\n" +
			"index and with the article's. With --snapshot D instead: the rate of a closed loop\n" +
			"(insert, claim, settle) while a REPEATABLE READ snapshot is held for D, with the\n" +
			"relay's cursor and without. No broker takes part; --bus is a column of the rows.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchClaim(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	o.common(cmd)
	f := cmd.Flags()
	f.IntSliceVar(&o.Sent, "sent", []int{0, 1_000_000}, "sent rows below; a million takes about 10 s to fill")
	f.IntSliceVar(&o.Pending, "pending", []int{1_000, 100_000}, "pending rows")
	f.IntVar(&o.Loops, "loops", 9, "claims of a cell")
	f.DurationVar(&o.snapshot, "snapshot", 0, "hold a snapshot so long, for example 40s")
	return cmd
}

func benchClaim(ctx context.Context, out io.Writer, o claimOptions) error {
	p, err := o.on(ctx, false)
	if err != nil {
		return err
	}
	defer p.done()
	if o.snapshot != 0 {
		lines := &benchLines{out: out, json: o.json, heading: "claims  snapshot    time   events/s  of before    dead rows"}
		return measure.Snapshot(ctx, o.Config, o.snapshot, benchStage, lines.window)
	}
	lines := &benchLines{out: out, json: o.json, heading: "      sent    pending   claim            p50 ms    max ms   index"}
	return measure.Claim(ctx, o.Config, o.Growth, benchStage, lines.claimed)
}

type producerOptions struct {
	benchOptions
	clients []int
}

func benchProducerCommand() *cobra.Command {
	o := producerOptions{}
	cmd := &cobra.Command{
		Use:   "producer",
		Short: "what the outbox costs those who place orders",
		Long: "Places orders with and without an outbox row, in a transaction and as one statement\n" +
			"(outbox.OneStatement). No broker takes part; --bus is a column of the rows.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchProducer(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	o.common(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Rows, "rows", 5_000, "orders of a round; there are three rounds")
	f.IntSliceVar(&o.clients, "clients", []int{2, 8}, "clients at once")
	return cmd
}

func benchProducer(ctx context.Context, out io.Writer, o producerOptions) error {
	if err := checkClients(o.clients); err != nil {
		return err
	}
	p, err := o.on(ctx, false)
	if err != nil {
		return err
	}
	defer p.done()
	lines := &benchLines{out: out, json: o.json, heading: "clients  form                                orders/s  of only    p50 ms    p99 ms   p50 added"}
	wrong := 0
	for _, clients := range o.clients {
		err := measure.Produce(ctx, o.Config, clients, benchStage, func(p measure.Produced) error {
			wrong += p.Lost + p.Duplicated
			return lines.produced(p)
		})
		if err != nil {
			return err
		}
	}
	return unlessClean(wrong)
}

// checkClients looks at all of them before the first is measured.
func checkClients(numbers []int) error {
	for _, n := range numbers {
		if n < 1 || n > measure.MaxClients {
			return fmt.Errorf("--clients: 1 to %d, not %d", measure.MaxClients, n)
		}
	}
	if len(numbers) == 0 {
		return errors.New("--clients: at least one number")
	}
	return nil
}
