package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// nats embeds the server, JetStream on, or runs the binary when Real is asked for.
func nats(_ context.Context, s site) (plan, error) {
	if s.Form == Fake {
		return plan{}, errors.New("servers: nats has no double; it is embedded or real")
	}
	url := "nats://" + address(s.port)
	store := filepath.Join(s.dir, "jetstream")
	if s.Form != Real {
		return plan{url: url, mode: Embedded, note: "nats-server in this process",
			engine: &embeddedNATS{options: natsOptions(s.port, store)}}, nil
	}
	program := findProgram("nats-server", "/usr/sbin/nats-server", "/opt/homebrew/bin/nats-server", "/usr/local/bin/nats-server")
	if program == "" {
		return plan{}, missing("nats")
	}
	args := []string{"-a", "127.0.0.1", "-p", strconv.Itoa(s.port), "-js", "-sd", store}
	return plan{url: url, mode: Real, note: "JetStream on, file storage", engine: &processes{
		log:      filepath.Join(s.dir, "nats.log"),
		specs:    []spec{{path: program, args: args, dir: s.dir, stop: syscall.SIGTERM, death: syscall.SIGTERM}},
		ready:    func(ctx context.Context) error { _, err := Probe(ctx, "nats", url); return err },
		patience: 30 * time.Second,
		again:    []string{"address already in use"},
	}}, nil
}

// The embedded server's bounds; the server would take three quarters of both.
const (
	natsMemory = 256 << 20
	natsDisk   = 4 << 30
)

func natsOptions(port int, store string) *natsd.Options {
	return &natsd.Options{
		Host: "127.0.0.1", Port: port,
		JetStream: true, StoreDir: store, JetStreamMaxMemory: natsMemory, JetStreamMaxStore: natsDisk,
		NoSigs: true, // the process' signals are not the server's to handle
		NoLog:  true,
	}
}

// embeddedNATS runs a new server object at each start; they share the store.
type embeddedNATS struct {
	options *natsd.Options
	server  *natsd.Server // nil while it does not run
}

const natsPatience = 20 * time.Second

func (e *embeddedNATS) start(context.Context) error {
	srv, err := natsd.NewServer(e.options.Clone())
	if err != nil {
		return err
	}
	go srv.Start() // ends after Shutdown, for which kill waits
	if !srv.ReadyForConnections(natsPatience) {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("does not listen on port %d", e.options.Port)
	}
	e.server = srv
	if !srv.JetStreamEnabled() {
		return errors.Join(errors.New("JetStream did not start"), e.kill())
	}
	return nil
}

func (e *embeddedNATS) kill() error {
	if e.server == nil {
		return nil
	}
	e.server.Shutdown()
	e.server.WaitForShutdown()
	e.server = nil
	return nil
}

func (e *embeddedNATS) stop(context.Context) error { return e.kill() }

func (e *embeddedNATS) pid() int { return os.Getpid() }
