package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"outboxplayground/infra/servers"
)

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "what this machine has for the playground, and what is missing",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return doctor(cmd.Context()) },
	}
}

// doctor looks and starts nothing. It fails only when serve would.
func doctor(ctx context.Context) error {
	out := &printer{to: os.Stdout}
	out.line("%s, %s/%s, %d processors", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	out.line("private servers keep their data in %s (OUTBOX_PLAYGROUND_HOME moves it)", servers.Home())
	running, _ := servers.ReadEndpoints(servers.Home()) // none running is an answer, too
	if running != nil {
		out.line("a playground is running: %s, process %d", running.API, running.PID)
	} else {
		doctorPort(ctx, out)
	}
	out.line("  %-9s %-9s %s", "server", "mode", "note")
	missing := false
	for _, name := range servers.Names() {
		info := examine(ctx, name, running)
		out.bus(busInfo(info))
		missing = missing || (name == "postgres" && info.Mode == servers.Off)
	}
	out.bus(memoryInfo())
	if missing {
		return errors.New("PostgreSQL is needed and is not here: see the line above")
	}
	return nil
}

// examine says what serve would find: a server named by URL, one that is running,
// or the best form at hand.
func examine(ctx context.Context, name string, running *servers.Endpoints) servers.Info {
	if url := os.Getenv(servers.Variable(name)); url != "" {
		return examineNamed(ctx, name, url)
	}
	if running != nil {
		if info, ok := running.Lookup(name); ok {
			return info
		}
	}
	mode, note, err := servers.Find(name)
	var gone *servers.Missing
	switch {
	case errors.As(err, &gone):
		return servers.Info{Name: name, Mode: servers.Off, Note: "not on this machine", Fix: gone.Fix}
	case err != nil:
		return servers.Info{Name: name, Mode: servers.Off, Note: err.Error()}
	}
	return servers.Info{Name: name, Mode: mode, Note: note}
}

func examineNamed(ctx context.Context, name, url string) servers.Info {
	version, err := probe(ctx, name, url)
	if err != nil {
		return servers.Info{Name: name, Mode: servers.Off, Note: fmt.Sprintf("%s is set, but: %v", servers.Variable(name), err),
			Fix: "start it, or unset " + servers.Variable(name)}
	}
	return servers.Info{Name: name, Mode: servers.Real, Note: version + ", from " + servers.Variable(name)}
}

func doctorPort(ctx context.Context, out *printer) {
	addr := envOr("ADDR", defaultAddr)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		out.line("%s is taken: %v; serve --addr 127.0.0.1:8001 uses another", addr, err)
		return
	}
	_ = l.Close() // it was only to see
	out.line("%s is free", addr)
}
