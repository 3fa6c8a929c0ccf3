package main

import (
	"os"
	"runtime/pprof"

	measure "outboxplayground/core/bench"
)

// relayProfile profiles this process while the relay drains, and no other stage:
// the bare loop beside it would be in the same profile otherwise.
type relayProfile struct {
	path string // empty: no profile
	file *os.File
	err  error
}

// stage is told what is under way.
func (p *relayProfile) stage(name string) {
	benchStage(name)
	p.stop()
	if p.path == "" || name != measure.RelayStage {
		return
	}
	if p.file, p.err = os.Create(p.path); p.err == nil {
		p.err = pprof.StartCPUProfile(p.file)
	}
}

// stop ends the profile, if there is one, and returns what went wrong with it.
func (p *relayProfile) stop() error {
	if p.file != nil {
		pprof.StopCPUProfile()
		if err := p.file.Close(); p.err == nil {
			p.err = err
		}
		p.file = nil
	}
	return p.err
}
