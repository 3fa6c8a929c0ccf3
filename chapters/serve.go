package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/web"
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
	return cmd
}

// roleNames are the roles of a chapter.
func roleNames() []string { return []string{"producer", "relay", "consumer"} }

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func serve(ctx context.Context, o serveOptions) error {
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
		Chapters: contents(), Relay: roles["relay"], Consumer: roles["consumer"]})
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

// stage is all that serve has put together.
type stage struct {
	fleet   *fleet
	live    *lab.Live
	lab     *lab.Lab
	queue   *lab.Queue
	results *pgxpool.Pool // in the playground's schema
	where   directory
	memory  bool // whether the bus in memory can work here
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
		return nil, db, fmt.Errorf("PostgreSQL at %s: %w", servers.Redact(db.URL), err)
	}
	return live, db, nil
}

func stderrLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// serve works until ctx ends, then stops in the order of the work: no new requests,
// then the lanes, which finish what they have in hand.
func (st *stage) serve(ctx context.Context, l net.Listener) error {
	if !st.fleet.joined() {
		if err := unpause(ctx, st.live); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	parts.Go(func() { _ = st.live.Run(ctx) }) // its only end is that of ctx
	parts.Go(func() { st.attachBuses(ctx) })
	parts.Go(func() { st.queue.Run(ctx) })
	server := st.server(l)
	failed := make(chan error, 1)
	parts.Go(func() { failed <- server.Serve(l) })

	var err error
	select {
	case <-ctx.Done():
		st.fleet.out.line("stopping: finishing what is in flight (at most %s)", brief(stopLimit))
		shut, end := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer end()
		err = server.Shutdown(shut)
	case err = <-failed:
	}
	cancel()
	parts.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// attachBuses brings the buses, says what each is, and then removes what runs of
// dead processes have left on them.
func (st *stage) attachBuses(ctx context.Context) {
	out := st.fleet.out
	attach := func(b lab.BusInfo, open lab.OpenBus) {
		st.live.Attach(b, open)
		out.bus(b)
	}
	b := memoryInfo()
	if st.memory {
		attach(b, openBus(inMemory, ""))
	} else {
		b.Mode, b.Fix = servers.Off, "run serve with all three roles"
		b.Note = "the bus in memory lives in one process, and this one lacks a role"
		attach(b, nil)
	}
	attachAll(ctx, st.fleet, st.where.add, attach)
	if ctx.Err() != nil {
		return
	}
	out.line("  open %s, or place an order:", st.fleet.api)
	out.line("  curl -X POST '%s/demo/place-order?user_id=u1&items=A,B'", st.fleet.api)
	if err := st.lab.Sweep(ctx); err != nil && ctx.Err() == nil {
		out.warn("what dead runs left behind stays for the next start: %v", err)
	}
}

// unpause lets every relay work: a pause does not survive a restart.
func unpause(ctx context.Context, live *lab.Live) error {
	for _, c := range live.Chapters() {
		if !c.Outbox {
			continue
		}
		if err := live.Pause(ctx, c.Number, false); err != nil {
			return err
		}
	}
	return nil
}

func (st *stage) server(l net.Listener) *http.Server {
	host, _, _ := net.SplitHostPort(l.Addr().String()) // a listener's address has both
	return &http.Server{
		Handler: web.New(st.live, web.Options{Hosts: []string{host}, Log: stderrLog(), Race: st.race,
			Lab: &web.Lab{Queue: st.queue, Results: st.results}}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      3 * time.Minute, // a race answers when it is over
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
}

// race sets chapter 1 beside the outbox, through the lab, and keeps both reports.
func (st *stage) race(ctx context.Context, count int, busName string) (lab.RaceResult, error) {
	res, runs, err := st.lab.Race(ctx, 1, 3, count, busName)
	if err != nil {
		return res, err
	}
	for _, r := range runs {
		if err := lab.Save(ctx, st.results, r); err != nil {
			return res, err
		}
	}
	return res, nil
}

// listen takes the address, or says who has it.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	holder := "another program has it"
	if healthy(ctx, addr) == nil {
		holder = "a playground is running there already: open http://" + addr
	}
	return nil, fmt.Errorf("cannot listen on %s: %w (%s; --addr 127.0.0.1:8001 takes another port)", addr, err, holder)
}

// healthy asks a playground at addr whether it is up.
func healthy(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("http://%s/healthz answers %s", addr, resp.Status)
	}
	return nil
}

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "ask the playground at ADDR whether it is up (for containers)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, port, err := net.SplitHostPort(envOr("ADDR", defaultAddr))
			if err != nil {
				return err
			}
			if err := healthy(cmd.Context(), net.JoinHostPort("127.0.0.1", port)); err != nil {
				return &exitError{code: exitNotValid, err: err}
			}
			return nil
		},
	}
}
