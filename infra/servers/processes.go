package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// processes is the engine of a server that runs as child processes: the last
// spec is the server, those before it are what it needs.
type processes struct {
	log   string
	specs []spec
	// ready asks the server whether it serves.
	ready func(ctx context.Context) error
	// patience bounds a start.
	patience time.Duration
	// again lists what the log says when a start fails because a predecessor has
	// not quite ended; it is then tried anew.
	again []string

	running []*child
}

// pollEvery is the pause between two questions whether a server is ready.
const pollEvery = 15 * time.Millisecond

func (p *processes) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	for {
		at := p.logSize()
		err := p.try(ctx)
		if err == nil {
			return nil
		}
		_ = p.kill()
		if ctx.Err() != nil || !p.worthAnother(at) {
			return fmt.Errorf("%w\nthe end of %s:\n%s", err, p.log, tail(p.log))
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func (p *processes) try(ctx context.Context) error {
	log, err := p.openLog()
	if err != nil {
		return err
	}
	defer log.Close() // the children have their own copies
	for _, s := range p.specs {
		c, err := launch(s, log)
		if err != nil {
			return err
		}
		p.running = append(p.running, c)
	}
	return p.await(ctx)
}

// await polls until the server answers, one of the processes ends, or ctx does.
func (p *processes) await(ctx context.Context) error {
	var last error
	for {
		for i, c := range p.running {
			if ended(c) {
				return fmt.Errorf("%s ended at once: %v", filepath.Base(p.specs[i].path), c.err)
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("does not answer: %w", errors.Join(ctx.Err(), last))
		}
		if last = p.ready(ctx); last == nil {
			return nil
		}
		pause(ctx, pollEvery)
	}
}

func ended(c *child) bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// logLimit starts the log anew when it has grown beyond this many bytes.
const logLimit = 16 << 20

func (p *processes) openLog() (*os.File, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if p.logSize() > logLimit {
		flags |= os.O_TRUNC
	}
	return os.OpenFile(p.log, flags, 0o600)
}

func (p *processes) logSize() int64 {
	info, err := os.Stat(p.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// worthAnother looks for the words of a passing trouble in the log since offset.
func (p *processes) worthAnother(offset int64) bool {
	b, err := os.ReadFile(p.log)
	if err != nil || int64(len(b)) < offset {
		return false
	}
	for _, words := range p.again {
		if strings.Contains(string(b[offset:]), words) {
			return true
		}
	}
	return false
}

func (p *processes) kill() error {
	for i := len(p.running) - 1; i >= 0; i-- {
		p.running[i].kill()
	}
	p.running = nil
	return nil
}

func (p *processes) stop(ctx context.Context) error {
	if len(p.running) == 0 {
		return nil
	}
	last := len(p.running) - 1
	p.running[last].signal(p.specs[last].stop)
	select {
	case <-p.running[last].done:
	case <-ctx.Done(): // by force, below
	}
	return p.kill()
}

func (p *processes) pid() int {
	if len(p.running) == 0 {
		return 0
	}
	return p.running[len(p.running)-1].pid()
}
