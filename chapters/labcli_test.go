package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// command runs `chapters args…` to its end.
func (b *bench) command(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(machineEnv(), childMark+"=1")
	for k, v := range b.env() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if e := cmd.Run(); e != nil && !errors.As(e, &exit) {
		t.Fatal(e)
	}
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// The exit code is the verdict, and with --json stdout is one report and nothing
// else.
func TestRunCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	for _, c := range []struct {
		name  string
		args  []string
		code  int
		valid audit.Validity
	}{
		{"valid", []string{"3", "--fault", "crash-after-commit", "--orders", "15"}, 0, audit.True},
		{"not valid", []string{"1", "--fault", "crash-after-commit", "--orders", "15"}, 1, audit.False},
		{"no hit: the outage begins after the last order", []string{"3", "--fault", "broker-down", "--orders", "12"}, 2, audit.Unknown},
		{"no hit: the run is too short for the order", []string{"1", "--fault", "rollback", "--orders", "5"}, 2, audit.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := b.command(t, append([]string{"run", "--bus", "nats", "--json"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, stderr)
			}
			var r lab.Report
			dec := json.NewDecoder(strings.NewReader(stdout))
			if err := dec.Decode(&r); err != nil || r.Valid != c.valid {
				t.Errorf("valid is %q, want %q (%v)\n%s", r.Valid, c.valid, err, stdout)
			}
			if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
				t.Errorf("more than one object on stdout (%v):\n%s", err, stdout)
			}
			if !strings.Contains(stderr, "orders") {
				t.Errorf("no progress on stderr: %q", stderr)
			}
		})
	}
	b.nothingLeft(t)
}

// What cannot be run is exit code 3, says why, and prints no report.
func TestRunCommandRefuses(t *testing.T) {
	b := newBench(t, "nats")
	for want, args := range map[string][]string{
		"no chapter 77":        {"77", "--bus", "nats"},
		"crash-after-publish,": {"1", "--bus", "nats", "--fault", "fire"},
		"write-first":          {"1", "--bus", "nats", "--variant", "x"},
		"1 to 2000":            {"1", "--bus", "nats", "--orders", "2001"},
		"does not apply":       {"1", "--bus", "nats", "--fault", "two-relays"},
		"there is no connecti": {"1", "--bus", "inmemory", "--fault", "broker-down"},
		"--repeat":             {"1", "--bus", "nats", "--repeat", "0"},
		"--orders":             {"1", "--bus", "nats", "--orders", "0"},
		"--predict":            {"1", "--bus", "nats", "--predict", "-5"},
		"is not the number":    {"1x"},
		"no such bus":          {"1", "--bus", "pigeon"},
	} {
		stdout, stderr, code := b.command(t, append([]string{"run", "--json"}, args...)...)
		if code != exitCouldNotRun || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("run %v: exit code %d, stdout %q, stderr %q; want 3, nothing, and %q", args, code, stdout, stderr, want)
		}
	}
	b.nothingLeft(t)
}

// startLong starts a run with an outage of a minute and waits until it is in the
// middle of it: 47 orders placed, the broker cut off, three children alive.
func (b *bench) startLong(t *testing.T, busName string) (p *process, schema string, children []int) {
	t.Helper()
	p = startCommand(t, b.env(), "run", "3", "--bus", busName, "--fault", "broker-down", "--outage", "1m")
	eventually(t, time.Minute, "the run to be in its outage", func() bool {
		names := b.schemas(t)
		if len(names) != 1 {
			return false
		}
		schema = names[0]
		var orders int
		err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".orders").Scan(&orders)
		return err == nil && orders == lab.DefaultOrders
	})
	children = descendants(t, p.cmd.Process.Pid, childCommandName)
	if len(children) != 3 || namesOf(t, busName, schema) == 0 {
		t.Fatalf("children %v, %d names on the broker: the run is not what this test is about",
			children, namesOf(t, busName, schema))
	}
	return p, schema, children
}

// Ctrl-C: the run cleans up by itself.
func TestInterruptedRunCleansUp(t *testing.T) {
	t.Parallel()
	for _, busName := range []string{"rabbitmq", "kafka"} {
		t.Run(busName, func(t *testing.T) {
			b := newBench(t, busName)
			p, schema, children := b.startLong(t, busName)
			if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.done:
			case <-time.After(stopLimit):
				t.Fatalf("still running %v after SIGINT", stopLimit)
			}
			if code := p.cmd.ProcessState.ExitCode(); code != exitCouldNotRun {
				t.Errorf("exit code %d, want %d", code, exitCouldNotRun)
			}
			if alive := living(t, children); len(alive) > 0 {
				t.Errorf("children %v live on", alive)
			}
			b.nothingLeft(t)
			brokersClean(t, schema)
		})
	}
}

// SIGKILL: nobody can clean up, so the children end by themselves, and the next
// start sweeps the rest.
func TestKilledRunIsSwept(t *testing.T) {
	t.Parallel()
	for _, busName := range []string{"rabbitmq", "kafka", "nats", "redis"} {
		t.Run(busName, func(t *testing.T) {
			b := newBench(t, busName)
			p, schema, children := b.startLong(t, busName)
			if err := b.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := b.schemas(t); len(left) != 1 || namesOf(t, busName, schema) == 0 {
				t.Errorf("a sweep took from a living run: schemas %v", left)
			}
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-p.done
			eventually(t, 10*time.Second, "the children to end", func() bool { return len(living(t, children)) == 0 })
			if len(b.schemas(t)) != 1 || namesOf(t, busName, schema) == 0 {
				t.Error("nothing was left to sweep: this test proves nothing")
			}
			eventually(t, 10*time.Second, "the sweep", func() bool { // the database notices the death a moment later
				if err := b.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				return len(b.schemas(t)) == 0
			})
			b.nothingLeft(t)
			brokersClean(t, schema)
		})
	}
}

// The same for the playground itself with runs in its queue; its next start sweeps.
func TestKilledServeIsSweptAtTheNextStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats", "redis", "rabbitmq", "kafka")
	p := startServe(t, b.env())
	p.waitReady(allBuses()...)
	for _, busName := range []string{"nats", "redis", "rabbitmq", "kafka"} {
		status, answer := p.call("POST", "/runs", `{"chapter":3,"bus":"`+busName+`","fault":"broker-down","orders":47}`)
		if status != 202 {
			t.Fatalf("POST /runs: %d %v", status, answer)
		}
	}
	var schemas []string
	var children []int
	eventually(t, time.Minute, "three runs to be under way", func() bool {
		schemas = b.schemas(t)
		children = descendants(t, p.cmd.Process.Pid, childCommandName)
		return len(schemas) == lab.QueueWorkers && len(children) >= 2*lab.QueueWorkers
	})
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	eventually(t, 10*time.Second, "the children to end", func() bool { return len(living(t, children)) == 0 })
	if len(b.schemas(t)) == 0 {
		t.Error("nothing was left to sweep: this test proves nothing")
	}
	next := startServe(t, b.env())
	next.waitReady(allBuses()...)
	eventually(t, 30*time.Second, "the sweep at the start", func() bool { // the notes go last
		return b.count(t, `SELECT count(*) FROM playground.traces`) == 0
	})
	next.stop()
	b.nothingLeft(t)
	for _, s := range schemas {
		brokersClean(t, s)
	}
}

// SIGKILL while a relay stands still: a stopped process does not see its input end,
// but the system wakes what its parent has left behind stopped.
func TestKilledWhileARelayIsStopped(t *testing.T) {
	b := newBench(t, "nats")
	p := startCommand(t, b.env(), "run", "3", "--bus", "nats", "--fault", "zombie-relay")
	var children []int
	eventually(t, time.Minute, "a relay to be stopped", func() bool {
		children = descendants(t, p.cmd.Process.Pid, childCommandName)
		return slices.ContainsFunc(children, func(pid int) bool { return strings.HasPrefix(status(pid), "T") })
	})
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	eventually(t, 10*time.Second, "the children to end", func() bool { return len(living(t, children)) == 0 })
	eventually(t, 10*time.Second, "the sweep", func() bool {
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(b.schemas(t)) == 0
	})
	b.nothingLeft(t)
}
