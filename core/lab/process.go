package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// process is a child as the lab sees it.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	roles []RoleSpec
	ended chan struct{} // closed when it is gone and all it said is read
	// struck: its end is planned, by a fault or because it was told to stop. The run's
	// goroutine sets and reads it.
	struck bool

	mu     sync.Mutex
	stderr bytes.Buffer
}

// journal is all that the children of a run have said, in the order of arrival.
type journal struct {
	mu     sync.Mutex
	lines  []Line
	change chan struct{} // closed and replaced at every line
}

func newJournal() *journal { return &journal{change: make(chan struct{})} }

func (j *journal) add(l Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, l)
	close(j.change)
	j.change = make(chan struct{})
}

// all returns a copy of what was said so far.
func (j *journal) all() []Line {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// await returns the first line that matches, from the from-th on, and the index
// after it. It gives up when ctx ends or dead is closed.
func (j *journal) await(ctx context.Context, dead <-chan struct{}, from int, match func(Line) bool) (Line, int, error) {
	gone := false
	for {
		j.mu.Lock()
		lines, change := j.lines, j.change
		j.mu.Unlock()
		for i := from; i < len(lines); i++ {
			if match(lines[i]) {
				return lines[i], i + 1, nil
			}
		}
		from = len(lines)
		if gone {
			return Line{}, from, errors.New("the child ended before it got there")
		}
		select {
		case <-ctx.Done():
			return Line{}, from, ctx.Err()
		case <-dead:
			gone = true // once more, for what it said last
		case <-change:
		}
	}
}

// spawn starts a child, hands it its spec and waits until its roles are ready.
func (r *run) spawn(ctx context.Context, roles ...RoleSpec) (*process, error) {
	spec := r.childSpec
	spec.Roles = roles
	p := &process{roles: roles, ended: make(chan struct{}), cmd: exec.Command(r.lab.Exe[0], r.lab.Exe[1:]...)}
	p.cmd.Env = r.lab.Env
	p.cmd.Stderr = p
	// Ctrl-C in a terminal goes to the whole group; the children are for the lab to end.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	from := len(r.journal.all())
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	r.procs = append(r.procs, p)
	r.readers.Go(func() { p.read(out, r.journal) })
	if err := p.tell(spec); err != nil {
		return nil, err
	}
	for _, role := range roles {
		if role.Wait {
			continue
		}
		line, _, err := r.journal.await(ctx, p.ended, from, func(l Line) bool {
			return l.Label == role.Label && l.Step == sayReady
		})
		if err != nil {
			return nil, fmt.Errorf("%s does not become ready: %w: %s", role.Label, err, firstLine(p.complaint()))
		}
		if role.Role == Producing {
			r.address = line.Text
		}
	}
	return p, nil
}

// Write keeps the end of what the child complains about.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stderr.Len() < 64<<10 {
		p.stderr.Write(b)
	}
	return len(b), nil
}

func (p *process) complaint() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

func (p *process) read(out io.Reader, j *journal) {
	defer close(p.ended)
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20) // an error's text may be long
	for in.Scan() {
		var l Line
		if json.Unmarshal(in.Bytes(), &l) == nil {
			j.add(l)
		}
	}
	_ = p.cmd.Wait() // how it ended is read from ProcessState
}

// tell sends one line to the child.
func (p *process) tell(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = p.in.Write(append(line, '\n'))
	return err
}

// killed tells whether the process is dead by SIGKILL. Call it after ended.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// childPatience is how long a child may take to stop before it is killed.
const childPatience = 5 * time.Second

// end stops the child gracefully, by force if it does not.
func (p *process) end() {
	_ = p.in.Close()
	select {
	case <-p.ended:
		return
	case <-time.After(childPatience):
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // a stopped one could not even die gracefully
	_ = p.cmd.Process.Kill()
	<-p.ended
}
