// Command up starts private servers, runs a command with their addresses in its
// environment, and stops them when the command ends:
//
//	go run ./infra/servers/up --names postgres,nats -- go test ./core/...
//
// Its exit code is the command's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"outboxplayground/infra/servers"
)

func main() {
	names := flag.String("names", strings.Join(servers.Names(), ","), "the servers to start")
	kafka := flag.String("kafka", "", "form of Kafka: real or fake (default: the best at hand)")
	nats := flag.String("nats", "", "form of NATS: real or embedded (default: embedded)")
	redis := flag.String("redis", "", "form of Redis: real or fake (default: the best at hand)")
	skip := flag.Bool("skip-missing", false, "go on without a server that this machine does not have")
	noSync := flag.Bool("no-sync", false, "let PostgreSQL answer before the disk has the data")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: up [flags] -- command args…")
		flag.PrintDefaults()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	g := group{forms: map[string]string{"kafka": *kafka, "nats": *nats, "redis": *redis}, noSync: *noSync, skip: *skip}
	code := g.around(ctx, strings.Split(*names, ","), flag.Args())
	stop()
	os.Exit(code)
}

// group is the servers of one run of the command.
type group struct {
	forms        map[string]string
	noSync, skip bool

	mu      sync.Mutex
	running []*servers.Server
	begun   time.Time
}

// around starts the servers, runs the command, and stops the servers whatever happens.
func (g *group) around(ctx context.Context, names, command []string) int {
	g.begun = time.Now()
	defer g.stopAll()
	if err := g.startAll(ctx, names); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return run(ctx, command, g.environment())
}

const startLimit = 3 * time.Minute

func (g *group) startAll(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = g.start(ctx, strings.TrimSpace(name)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (g *group) start(ctx context.Context, name string) error {
	g.say("%-9s starting", name)
	s, err := servers.Start(ctx, name, servers.Options{Form: g.forms[name], NoSync: g.noSync})
	var gone *servers.Missing
	if errors.As(err, &gone) && g.skip {
		g.say("%-9s off: %s", name, gone.Fix)
		return nil
	}
	if err != nil {
		return err
	}
	g.say("%-9s %s %s at %s, ready in %v", name, s.Mode, s.Version, s.Place(), s.Took.Round(time.Millisecond))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = append(g.running, s)
	return nil
}

func (g *group) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[up %5.1fs] %s\n", time.Since(g.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (g *group) stopAll() {
	var wg sync.WaitGroup
	for _, s := range g.running {
		wg.Go(func() {
			if err := s.Stop(context.Background()); err != nil {
				g.say("stopping %s: %v", s.Name, err)
			}
		})
	}
	wg.Wait()
	g.say("%d servers stopped", len(g.running))
}

func (g *group) environment() []string {
	env := os.Environ()
	for _, s := range g.running {
		env = append(env, servers.Variable(s.Name)+"="+s.URL)
	}
	return env
}

// grace is what an interrupted command gets to end by itself.
const grace = 15 * time.Second

// run runs the command with our standard streams. An interrupt reaches it as one,
// together with all that it started.
func run(ctx context.Context, command, env []string) int {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command left behind
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 130
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, err)
	return 3
}
