package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// selfMark makes the test binary the command itself.
const selfMark = "UP_TEST_SELF"

func TestMain(m *testing.M) {
	if os.Getenv(selfMark) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func up(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.Command(self, args...)
	cmd.Env = append(os.Environ(), selfMark+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

func TestCommandGetsTheAddressesAndGivesItsExitCode(t *testing.T) {
	cmd, out, progress := up(t, "--names", "nats,redis", "--redis", "fake", "--", "sh", "-c", `echo "$NATS_URL $REDIS_URL"; exit 7`)
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("exit code %d, %v\n%s", cmd.ProcessState.ExitCode(), err, progress)
	}
	if f := strings.Fields(out.String()); len(f) != 2 || !strings.HasPrefix(f[0], "nats://127.0.0.1:") || !strings.HasPrefix(f[1], "redis://127.0.0.1:") {
		t.Errorf("the command saw %q", out)
	}
	if !strings.Contains(progress.String(), "2 servers stopped") {
		t.Errorf("progress:\n%s", progress)
	}
}

func TestMissingServerIsLoudUnlessSkipped(t *testing.T) {
	for skip, want := range map[string]int{"--skip-missing=false": 3, "--skip-missing": 0} {
		cmd, _, progress := up(t, "--names", "kafka", "--kafka", "real", skip, "--", "true")
		cmd.Env = append(cmd.Env, "KAFKA_HOME=", "KAFKA_CLASSPATH=", "HOME="+t.TempDir(), "XDG_CACHE_HOME=")
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want || !strings.Contains(progress.String(), "KAFKA_BROKERS=") {
			t.Errorf("%s: exit code %d, want %d\n%s", skip, got, want, progress)
		}
	}
}

func TestInterruptStopsCommandAndServers(t *testing.T) {
	cmd, _, progress := up(t, "--names", "nats", "--", "sh", "-c", `touch "$MARK"; exec sleep 60`)
	mark := t.TempDir() + "/running"
	cmd.Env = append(cmd.Env, "MARK="+mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(mark); err == nil {
			break
		}
	}
	begun := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || time.Since(begun) > 10*time.Second {
		t.Errorf("exit code %d after %v", cmd.ProcessState.ExitCode(), time.Since(begun))
	}
	if !strings.Contains(progress.String(), "1 servers stopped") {
		t.Errorf("progress:\n%s", progress)
	}
}
