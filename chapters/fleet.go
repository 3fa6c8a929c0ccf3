package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"outboxplayground/infra/servers"
)

// fleet is where a process's servers come from. One that a URL names is used as it
// is. The others are joined where a living playground has started them, and
// otherwise started privately, by the one process that holds the home's lock.
type fleet struct {
	home    string
	api     string
	release func() error // not nil: we own the home, and start what is not named
	out     *printer

	mu      sync.Mutex
	infos   map[string]servers.Info
	started []*servers.Server
}

// errNobody is the answer of a command that would join servers where none live.
var errNobody = errors.New("no playground is running here: start one with `go run ./chapters`" +
	" in another terminal, or name the servers with DATABASE_URL, RABBITMQ_URL," +
	" KAFKA_BROKERS, NATS_URL and REDIS_URL")

// ownFleet starts what no URL names, or joins the playground that did so already.
func ownFleet(api string, fresh bool, out *printer) (*fleet, error) {
	f := &fleet{home: servers.Home(), api: api, out: out, infos: map[string]servers.Info{}}
	if allNamed() {
		return f, nil
	}
	release, ok, err := servers.Lock(f.home)
	if err != nil {
		return nil, fmt.Errorf("the home of the private servers, %s (OUTBOX_PLAYGROUND_HOME moves it): %w", f.home, err)
	}
	if !ok {
		if fresh {
			return nil, errors.New("--fresh: a running playground is using the data; stop it first")
		}
		return f, nil
	}
	f.release = release
	if fresh {
		if err := servers.Fresh(f.home); err != nil {
			return nil, errors.Join(err, release())
		}
	}
	for _, name := range servers.Names() {
		f.note(servers.Info{Name: name, Mode: "", Note: "starting", State: "starting"})
	}
	return f, nil
}

// joinFleet uses what others have started, and starts nothing.
func joinFleet(out *printer) (*fleet, error) {
	f := &fleet{home: servers.Home(), out: out, infos: map[string]servers.Info{}}
	if _, err := servers.ReadEndpoints(f.home); err != nil && os.Getenv(servers.Variable("postgres")) == "" {
		return nil, errNobody
	}
	return f, nil
}

func allNamed() bool {
	for _, name := range servers.Names() {
		if os.Getenv(servers.Variable(name)) == "" {
			return false
		}
	}
	return true
}

// joined tells whether the servers belong to another process.
func (f *fleet) joined() bool { return f.release == nil && !allNamed() }

// bring returns a server once it is known what became of it. It never fails: a
// server that cannot be had is Off, with the reason and the fix.
func (f *fleet) bring(ctx context.Context, name string) servers.Info {
	var info servers.Info
	switch url := os.Getenv(servers.Variable(name)); {
	case url != "":
		info = named(ctx, name, url)
	case f.release != nil:
		info = f.start(ctx, name)
	default:
		info = f.join(ctx, name)
	}
	f.note(info)
	return info
}

// probeTimeout bounds the question for a version; the lane waits longer than this
// for a server that is not up yet.
const probeTimeout = 2 * time.Second

// probe asks a server that a URL names for its version.
func probe(ctx context.Context, name, url string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return servers.Probe(ctx, name, url)
}

func named(ctx context.Context, name, url string) servers.Info {
	version, _ := probe(ctx, name, url) // not up yet: the version stays unknown
	return servers.Info{
		Name: name, URL: url, Mode: servers.Real, Version: version, State: "ready",
		Note: "from " + servers.Variable(name),
	}
}

func (f *fleet) start(ctx context.Context, name string) servers.Info {
	s, err := servers.Start(ctx, name, servers.Options{Dir: filepath.Join(f.home, name)})
	var missing *servers.Missing
	switch {
	case errors.As(err, &missing):
		return servers.Info{Name: name, Mode: servers.Off, State: "off", Fix: missing.Fix, Note: "not on this machine"}
	case err != nil:
		return servers.Info{Name: name, Mode: servers.Off, State: "off", Note: err.Error(),
			Fix: "see its log under " + filepath.Join(f.home, name) + ", or name a server with " + servers.Variable(name)}
	}
	f.mu.Lock()
	f.started = append(f.started, s)
	f.mu.Unlock()
	info := s.Info()
	info.Note = fmt.Sprintf("ready in %s", brief(s.Took))
	if s.Note != "" {
		info.Note += "; " + s.Note
	}
	return info
}

// note remembers a server and, if we own the home, tells the others.
func (f *fleet) note(info servers.Info) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.infos[info.Name] = info
	if f.release == nil {
		return
	}
	e := servers.Endpoints{PID: os.Getpid(), API: f.api}
	for _, name := range servers.Names() {
		if i, ok := f.infos[name]; ok {
			e.Servers = append(e.Servers, i)
		}
	}
	if err := servers.WriteEndpoints(f.home, e); err != nil {
		f.out.warn("other commands cannot join: %v", err)
	}
}

// close stops what this process has started, side by side, and gives the home up.
func (f *fleet) close(ctx context.Context) {
	var stops sync.WaitGroup
	for _, s := range f.started {
		stops.Go(func() {
			if err := s.Stop(ctx); err != nil {
				f.out.warn("stopping %s: %v", s.Name, err)
			}
		})
	}
	stops.Wait()
	if f.release != nil {
		if err := f.release(); err != nil {
			f.out.warn("%v", err)
		}
	}
}
