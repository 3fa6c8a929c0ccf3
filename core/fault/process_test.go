package fault

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"outboxplayground/core/checkpoint"
)

// childMark makes the test binary be the process that the tests strike.
const childMark = "OUTBOX_FAULT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

// child answers each line, and crashes when it is told to.
func child() {
	defer os.Stdout.WriteString("deferred\n")
	steps := &checkpoint.Steps{}
	steps.Arm(checkpoint.Plan{At: checkpoint.AfterCommit, Do: Crash})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "crash" {
			steps.Reach(context.Background(), checkpoint.AfterCommit, "")
		}
		os.Stdout.WriteString("alive\n")
	}
}

type process struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func start(t *testing.T) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childMark+"=1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	p := &process{Cmd: cmd, in: in, out: bufio.NewReader(out)}
	p.say(t, "hello")
	p.hear(t, "alive\n")
	return p
}

func (p *process) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (p *process) hear(t *testing.T, want string) {
	t.Helper()
	if got, err := p.out.ReadString('\n'); got != want {
		t.Fatalf("the child said %q, %v; want %q", got, err, want)
	}
}

func (p *process) killed(t *testing.T) {
	t.Helper()
	p.Wait()
	if ws := p.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("the child ended by %v; want SIGKILL", p.ProcessState)
	}
}

func briefly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// seen checks both ways to look at a process: /proc, where there is one, and ps.
func seen(t *testing.T, pid int, want state) {
	t.Helper()
	for name, see := range map[string]func(context.Context, int) (state, error){"look": look, "ps": askPS} {
		if got, err := see(briefly(t), pid); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
}

func TestKillReturnsWhenTheProcessIsDead(t *testing.T) {
	p := start(t)
	pid := p.Process.Pid
	seen(t, pid, running)
	if err := Kill(briefly(t), pid); err != nil {
		t.Fatal(err)
	}
	seen(t, pid, dead) // a zombie: not waited for yet
	if err := Kill(briefly(t), pid); !errors.Is(err, ErrGone) {
		t.Errorf("killing the dead: %v", err)
	}
	p.killed(t)
	seen(t, pid, dead)
	if err := Stop(briefly(t), pid); !errors.Is(err, ErrGone) {
		t.Errorf("stopping what is gone: %v", err)
	}
}

func TestStopAndContinue(t *testing.T) {
	p := start(t)
	pid := p.Process.Pid
	if err := Stop(briefly(t), pid); err != nil {
		t.Fatal(err)
	}
	seen(t, pid, stopped)
	heard := make(chan string)
	p.say(t, "anybody there?")
	go func() { line, _ := p.out.ReadString('\n'); heard <- line }()
	select {
	case line := <-heard:
		t.Fatalf("a stopped process said %q", line)
	case <-time.After(100 * time.Millisecond):
	}
	if err := Continue(briefly(t), pid); err != nil {
		t.Fatal(err)
	}
	if line := <-heard; line != "alive\n" {
		t.Errorf("after Continue it said %q", line)
	}
	seen(t, pid, running)
}

func TestAStoppedProcessCanBeKilled(t *testing.T) {
	p := start(t)
	if err := Stop(briefly(t), p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := Kill(briefly(t), p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	p.killed(t)
}

func TestCrashRunsNoMoreCode(t *testing.T) {
	p := start(t)
	p.say(t, "crash")
	if rest, _ := io.ReadAll(p.out); len(rest) != 0 {
		t.Errorf("after the crash it said %q", rest)
	}
	p.killed(t)
}

func TestNoSignalsToTheWrongProcess(t *testing.T) {
	for _, pid := range []int{-1, 0, 1, os.Getpid()} {
		for _, f := range []func(context.Context, int) error{Kill, Stop, Continue} {
			if err := f(briefly(t), pid); err == nil || errors.Is(err, ErrGone) {
				t.Errorf("process %d: %v; want a refusal", pid, err)
			}
		}
	}
}

func TestStrikeEndsWithItsContext(t *testing.T) {
	p := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := func(state) bool { return false }
	if err := strike(ctx, p.Process.Pid, syscall.SIGCONT, never); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want the context's error", err)
	}
}
