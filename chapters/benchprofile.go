package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	measure "outboxplayground/core/bench"
)

// relayProfile profiles this process while the relay drains, and no other stage:
// the bare loop beside it would be in the same profile otherwise.
type relayProfile struct {
	file    *os.File // nil: no profile
	running bool
	err     error
}

// newRelayProfile makes the file at once: a path that does not work is no news for the
// end of a long measurement. An empty path means no profile.
func newRelayProfile(path string) (*relayProfile, error) {
	if path == "" {
		return &relayProfile{}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	return &relayProfile{file: f}, nil
}

// stage is told what is under way.
func (p *relayProfile) stage(name string) {
	benchStage(name)
	p.pause()
	if p.file != nil && p.err == nil && name == measure.RelayStage {
		p.err = pprof.StartCPUProfile(p.file)
		p.running = p.err == nil
	}
}

func (p *relayProfile) pause() {
	if p.running {
		pprof.StopCPUProfile()
		p.running = false
	}
}

// stop ends the profile, if there is one, and returns what went wrong with it.
func (p *relayProfile) stop() error {
	p.pause()
	if p.file == nil {
		return p.err
	}
	return errors.Join(p.err, p.file.Close())
}
