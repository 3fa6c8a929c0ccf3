package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"outboxplayground/core/lab"
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
		Exe: []string{exe, childCommandName}, Env: os.Environ(),
	}, nil
}

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
