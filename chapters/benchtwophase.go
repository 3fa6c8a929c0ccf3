package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	measure "outboxplayground/core/bench"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
)

func benchTwoPhaseCommand() *cobra.Command {
	o := producerOptions{}
	cmd := &cobra.Command{
		Use:   "twophase",
		Short: "orders by two-phase commit, beside the outbox",
		Long: "Places orders the way of chapter 3 (outbox), of chapter 5 with its relay until all is\n" +
			"sent, of chapters 7 and 8 (a trigger that notifies, and what the log costs who\n" +
			"writes), of chapter 1 (publish-first) and of chapter 9 (two-phase commit). With\n" +
			"--bus inmemory the broker costs nothing, and the rest is what PostgreSQL takes.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchTwoPhase(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	o.common(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Rows, "rows", 2_000, "orders of a round; there are three rounds")
	f.IntSliceVar(&o.clients, "clients", []int{1, 8}, "clients at once")
	return cmd
}

func benchTwoPhase(ctx context.Context, out io.Writer, o producerOptions) error {
	if err := checkClients(o.clients); err != nil {
		return err
	}
	p, err := o.on(ctx, true)
	if err != nil {
		return err
	}
	defer p.done()
	ways := []measure.Way{
		chapterWay("3 outbox", 3, "", false), chapterWay("5 outbox, and its relay has sent all", 5, "", true),
		chapterWay("7 outbox, its trigger notifies", 7, "", false), chapterWay("8 outbox, read from the log", 8, "", false),
		chapterWay("1 publish-first", 1, "publish-first", false), chapterWay("9 two-phase", 9, "", false), chapterWay("9 recovering", 9, "recovering", false),
	}
	lines := &benchLines{out: out, json: o.json, heading: fmt.Sprintf("%s (%s %s)\nclients  way                                    orders/s   slower    p50 ms    p99 ms",
		o.Bus, p.info.Mode, p.info.Version)}
	for _, clients := range o.clients {
		if err := measure.Ways(ctx, o.Config, clients, ways, benchStage, func(p measure.Placed) error {
			return lines.line(p, "%7d  %-36s %10.0f %7.1fx %9.2f %9.2f", p.Clients, p.Way, p.OrdersPerSecond, p.Slower, p.P50, p.P99)
		}); err != nil {
			return benchHint(err)
		}
	}
	return nil
}

// chapterWay is a chapter's variant, with its relay or without.
func chapterWay(name string, number int, variant string, sends bool) measure.Way {
	w := measure.Way{Name: name, Level: number}
	for _, c := range contents() {
		if c.Number != number {
			continue
		}
		w.Topic = c.Topic
		v, _ := c.Variant(variant)
		w.New = func(p measure.Place) (measure.Producer, measure.Sender) {
			d := lab.Deps{DB: p.DB, Bus: p.Bus, BusName: p.BusName, Schema: p.Schema, Gate: pg.Gate(p.Schema), Log: slog.New(slog.DiscardHandler)}
			if !sends {
				return v.Producer(d), nil
			}
			return v.Producer(d), v.Relay(d)
		}
	}
	return w
}
