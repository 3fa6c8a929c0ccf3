package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/infra/servers"
)

// defaultAddr is the article's port, on loopback.
const defaultAddr = "127.0.0.1:8000"

// stopLimit is how long a graceful stop may take before the process leaves anyway.
const stopLimit = 10 * time.Second

type serveOptions struct {
	addr  string
	fresh bool
	roles []string
	keep  time.Duration
}

func serveCommand() *cobra.Command {
	o := serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run the playground: API, relay and consumer of every chapter",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.addr, "addr", envOr("ADDR", defaultAddr), "where to listen, host:port (also ADDR)")
	cmd.Flags().BoolVar(&o.fresh, "fresh", false, "forget the data of the private servers first")
	cmd.Flags().StringSliceVar(&o.roles, "roles", roleNames(),
		"which roles run in this process; leave relay or consumer out to run it with its own command")
	keepFlag(cmd, &o.keep)
	return cmd
}

// roleNames are the roles of a chapter.
func roleNames() []string { return []string{"producer", "relay", "consumer"} }

// defaultKeep leaves a day to look at what was sent.
const defaultKeep = 24 * time.Hour

// keepFlag says how long sent rows stay. An environment that says nonsense is told so
// by the flag itself.
func keepFlag(cmd *cobra.Command, keep *time.Duration) {
	f := cmd.Flags()
	f.DurationVar(keep, "keep", defaultKeep, "how long sent rows stay in the outboxes, 0 for ever (also KEEP)")
	if v := os.Getenv("KEEP"); v != "" {
		if err := f.Set("keep", v); err != nil {
			cmd.PreRunE = func(*cobra.Command, []string) error { return fmt.Errorf("KEEP: %w", err) }
		}
	}
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func serve(ctx context.Context, o serveOptions) error {
	if o.keep < 0 {
		return fmt.Errorf("--keep: a time cannot be negative: %v", o.keep)
	}
	roles := map[string]bool{}
	for _, r := range o.roles {
		if ok, all := oneOf(r, roleNames()); !ok {
			return fmt.Errorf("--roles: there is no role %q; there are %s", r, all)
		}
		roles[r] = true
	}
	listener, err := listen(ctx, o.addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	out := &printer{to: os.Stdout}
	api := "http://" + listener.Addr().String()
	f, err := ownFleet(api, o.fresh, out)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		f.close(ctx)
	}()
	greet(out, f, api)
	live, db, err := openLive(ctx, f, lab.LiveConfig{
		Chapters: contents(), Relay: roles["relay"], Consumer: roles["consumer"], Keep: o.keep})
	if err != nil {
		return err
	}
	defer live.Close()
	st := &stage{fleet: f, live: live, memory: roles["relay"] && roles["consumer"]}
	if st.lab, err = newLab(db.URL, st.where.where); err != nil {
		return err
	}
	if st.results, err = pg.Open(db.URL, pg.PlaygroundSchema, pg.Options{}); err != nil {
		return err
	}
	defer st.results.Close()
	st.queue = lab.NewQueue(st.lab, st.results)
	return st.serve(ctx, listener)
}

func greet(out *printer, f *fleet, api string) {
	out.line("Outbox Playground · %s", api)
	if f.joined() {
		out.line("  another playground is running here: using its servers")
	}
	out.line("  %-9s %-9s %s", "bus", "mode", "note")
}

// openLive brings Postgres, which nothing works without, and opens the chapters.
func openLive(ctx context.Context, f *fleet, cfg lab.LiveConfig) (*lab.Live, servers.Info, error) {
	db := f.bring(ctx, "postgres")
	f.out.bus(busInfo(db))
	if db.Mode == servers.Off {
		return nil, db, fmt.Errorf("PostgreSQL is needed and could not be started: %s: %s", db.Note, db.Fix)
	}
	cfg.DatabaseURL, cfg.Buses, cfg.Log = db.URL, startingBuses(), stderrLog()
	live, err := lab.NewLive(ctx, cfg)
	if err != nil {
		return nil, db, fmt.Errorf("PostgreSQL at %s: %w; start it, correct DATABASE_URL, or unset it for a private one", servers.Redact(db.URL), err)
	}
	return live, db, nil
}

func stderrLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
