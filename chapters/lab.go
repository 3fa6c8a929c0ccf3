package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"outboxplayground/brokers"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/infra/servers"
)

// childCommand is what the lab starts; nobody types it.
const childCommandName = "lab-child"

func childCommand() *cobra.Command {
	return &cobra.Command{
		Use: childCommandName, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Not the command's context: Ctrl-C is for the lab, which then ends us.
			return lab.RunChild(context.WithoutCancel(cmd.Context()), lab.ChildEnv{
				Chapters: contents(), Open: openBus, In: os.Stdin, Out: os.Stdout})
		},
	}
}

// newLab makes the lab that works on the servers which where knows.
func newLab(databaseURL string, where func(name string) (lab.BusInfo, string, error)) (*lab.Lab, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the lab starts children of this program and cannot find it: %w", err)
	}
	return &lab.Lab{
		Chapters: contents(), DatabaseURL: databaseURL, Bus: where, Open: openBus,
		Exe: []string{exe, childCommandName}, Env: childEnv(),
	}, nil
}

// childEnv is our own environment. A child lives for seconds and keeps next to nothing:
// collected less often, its garbage costs half a megabyte more and a tenth less time.
func childEnv() []string { return append([]string{"GOGC=400"}, os.Environ()...) } // the last one counts

// directory knows where each bus is, as soon as the fleet has brought it.
type directory struct {
	mu    sync.Mutex
	infos map[string]servers.Info
}

func (d *directory) add(i servers.Info) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.infos == nil {
		d.infos = map[string]servers.Info{}
	}
	d.infos[i.Name] = i
}

// where answers the lab.
func (d *directory) where(name string) (lab.BusInfo, string, error) {
	if name == inMemory {
		return memoryInfo(), "", nil
	}
	d.mu.Lock()
	info, ok := d.infos[name]
	d.mu.Unlock()
	switch {
	case !ok:
		return lab.BusInfo{}, "", fmt.Errorf("%w: %s", lab.ErrBusStarting, name)
	case info.Mode == servers.Off:
		return lab.BusInfo{}, "", fmt.Errorf("%w: %s: %s: %s", lab.ErrBusOff, name, info.Note, info.Fix)
	}
	return busInfo(info), info.URL, nil
}

// labFor brings what a command for the lab needs: the servers of a playground
// that runs here, else private ones for the command's own duration.
func labFor(ctx context.Context, buses []string) (*lab.Lab, func(), error) {
	for _, name := range buses {
		if ok, known := oneOf(name, brokers.Names()); !ok {
			return nil, nil, fmt.Errorf("%w: %q; there are %s", lab.ErrUnknownBus, name, known)
		}
	}
	out := &printer{to: os.Stderr}
	f, err := ownFleet("", false, out)
	if err != nil {
		return nil, nil, err
	}
	done := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		f.close(ctx)
	}
	if f.release != nil {
		out.line("starting what no URL names, for this command: postgres, %s", strings.Join(buses, ", "))
	}
	var where directory
	var brought sync.WaitGroup
	for _, name := range buses {
		if name != inMemory {
			brought.Go(func() { where.add(f.bring(ctx, name)) })
		}
	}
	db := f.bring(ctx, "postgres")
	brought.Wait()
	if db.URL == "" {
		done()
		return nil, nil, fmt.Errorf("PostgreSQL is needed: %s: %s", db.Note, db.Fix)
	}
	l, err := newLab(db.URL, where.where)
	if err != nil {
		done()
		return nil, nil, err
	}
	if err := l.Sweep(ctx); err != nil && ctx.Err() == nil {
		out.warn("what dead runs left behind stays for the next start: %v", err)
	}
	return l, done, nil
}

// keep stores the result, so that the guarantees table and /runs show it.
func keep(ctx context.Context, l *lab.Lab, res lab.Result) error {
	pool, err := pg.Open(l.DatabaseURL, pg.PlaygroundSchema, pg.Options{MaxConns: 1})
	if err != nil {
		return err
	}
	defer pool.Close()
	return lab.Save(ctx, pool, res)
}
