package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"outboxplayground/brokers"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/infra/servers"
)

type roleOptions struct {
	chapter int
	buses   []string
	keep    time.Duration
}

func relayCommand() *cobra.Command {
	return roleCommand("relay", "run the relay of the chapters with an outbox, as a process of its own",
		lab.LiveConfig{Relay: true})
}

func consumeCommand() *cobra.Command {
	return roleCommand("consume", "run the listener that sends the emails, as a process of its own",
		lab.LiveConfig{Consumer: true})
}

func roleCommand(name, short string, cfg lab.LiveConfig) *cobra.Command {
	o := roleOptions{}
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long: short + ".\nIt uses the servers of a running playground, or those that the URLs name. Start\n" +
			"the playground with `serve --roles producer` to leave the work to this process.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRole(cmd.Context(), name, cfg, o) },
	}
	if cfg.Relay {
		keepFlag(cmd, &o.keep)
	}
	cmd.Flags().IntVar(&o.chapter, "chapter", 0, "only this chapter (default: all that have the role)")
	cmd.Flags().StringSliceVar(&o.buses, "bus", nil, "only these buses (default: all with a network)")
	return cmd
}

// runRole runs one role until ctx ends.
func runRole(ctx context.Context, name string, cfg lab.LiveConfig, o roleOptions) error {
	if err := checkBuses(name, o.buses); err != nil {
		return err
	}
	for _, c := range contents() {
		if (o.chapter == 0 || c.Number == o.chapter) && (c.Outbox || cfg.Consumer) {
			cfg.Chapters = append(cfg.Chapters, c)
		}
	}
	if len(cfg.Chapters) == 0 {
		return fmt.Errorf("chapter %d has no %s", o.chapter, name)
	}
	if cfg.Keep = o.keep; cfg.Keep < 0 {
		return fmt.Errorf("--keep: a time cannot be negative: %v", o.keep)
	}
	out := &printer{to: os.Stdout}
	f, err := joinFleet(out)
	if err != nil {
		return err
	}
	out.line("%s of %d chapters; Ctrl-C stops it after what is in flight", name, len(cfg.Chapters))
	told := milestones()
	cfg.Observe = func(chapter int, busName string, at checkpoint.Name, id string) {
		if what, ok := told[at]; ok {
			out.line("chapter %d  %-8s  %s  %s", chapter, busName, id, what)
		}
	}
	live, _, err := openLive(ctx, f, cfg)
	if err != nil {
		return err
	}
	defer live.Close()
	ctx, release := f.whileOwned(ctx)
	defer release()
	var attaching sync.WaitGroup
	defer attaching.Wait()
	attaching.Go(func() {
		attachAll(ctx, f, func(servers.Info) {}, func(b lab.BusInfo, open lab.OpenBus) {
			if len(o.buses) > 0 && !slices.Contains(o.buses, b.Name) {
				return
			}
			live.Attach(b, open)
			out.bus(b)
		})
	})
	return errors.Join(live.Run(ctx), ownerGone(ctx))
}

// milestones are the steps that a role tells, a line for each event: what cannot be
// undone has happened.
func milestones() map[checkpoint.Name]string {
	return map[checkpoint.Name]string{checkpoint.AfterPublish: "published", checkpoint.AfterEffect: "email sent"}
}

// checkBuses refuses the bus that cannot be reached from another process.
func checkBuses(role string, buses []string) error {
	for _, b := range buses {
		if ok, all := oneOf(b, brokers.Names()); !ok {
			return fmt.Errorf("--bus: there is no bus %q; there are %s", b, all)
		}
		if b == inMemory {
			return errors.New("the bus in memory lives in the process of serve; a separate " + role + " cannot reach it")
		}
	}
	return nil
}
