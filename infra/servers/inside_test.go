package servers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// FixOf shows the fix of a missing server to the tests outside.
func FixOf(name string) string { return missing(name).Fix }

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"postgres://u:secret@h:1/db?sslmode=disable": "postgres://u@h:1/db?sslmode=disable",
		"amqp://u:secret@h":                          "amqp://u@h",
		"redis://:secret@h:1":                        "redis://@h:1",
		"nats://a:secret@h:1,nats://b:secret@h:2":    "nats://a@h:1,nats://b@h:2",
		"h:1,h:2":                                "h:1,h:2",
		"redis://u:sec%ret@h:1":                  "h:1",
		"u:secret@h:1":                           "h:1",
		"host=h user=u password=secret":          "(key-value form)",
		"host=h password=s@cret":                 "(key-value form)",
		"amqp://u:a,secret@h:1":                  "amqp://u@h:1",
		"postgres://h/db?user=u&password=secret": "postgres://h/db?user=u",
	} {
		if got := Redact(raw); got != want {
			t.Errorf("Redact(%q) = %q, want %q", raw, got, want)
		}
	}
}

func TestNewestComesFirst(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"9.6", "15", "9", "17", "100"} {
		if err := os.MkdirAll(filepath.Join(dir, v), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, p := range globNewest(filepath.Join(dir, "*")) {
		got = append(got, filepath.Base(p))
	}
	if strings.Join(got, " ") != "100 17 15 9.6 9" {
		t.Errorf("order %v", got)
	}
}

func TestSweepSparesTheLiving(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	living, err := newTempDir("x")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := newTempDir("x")
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.lock.Close() // as the kernel does when a process is killed
	young := filepath.Join(base, tempPrefix+"young")
	other := filepath.Join(base, "somebody-else")
	for _, d := range []string{young, other} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * sweepAge)
	for _, d := range []string{living.path, dead.path, other} {
		if err := os.Chtimes(d, old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweep(base)
	for dir, want := range map[string]bool{living.path: true, dead.path: false, young: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", dir, err == nil, want)
		}
	}
	if err := living.remove(); err != nil {
		t.Error(err)
	}
}

func TestUnreachableDirectoryIsNamed(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	stranger := &account{name: "stranger", uid: 12345, gid: 12345}
	err := reachable(filepath.Join(closed, "data"), stranger)
	if err == nil || !strings.Contains(err.Error(), "stranger cannot enter") {
		t.Errorf("%v", err)
	}
	if err := reachable("/usr/data", stranger); err != nil {
		t.Error(err)
	}
}

func TestClusterOfAnotherVersionIsNotTouched(t *testing.T) {
	cluster := t.TempDir()
	if err := os.WriteFile(filepath.Join(cluster, "PG_VERSION"), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := postgresBin(cluster)
	var gone *Missing
	if errors.As(err, &gone) {
		t.Skip(gone)
	}
	if err == nil || !strings.Contains(err.Error(), "PostgreSQL 7") || !strings.Contains(err.Error(), "--fresh") {
		t.Errorf("%v", err)
	}
}

// The watcher is what systems other than Linux rely on.
func TestWatcher(t *testing.T) {
	for _, dies := range []bool{true, false} {
		sleeper := exec.Command("sleep", "60")
		if err := sleeper.Start(); err != nil {
			t.Fatal(err)
		}
		w, err := watch(sleeper.Process.Pid, syscall.SIGTERM)
		if err != nil {
			t.Fatal(err)
		}
		if dies {
			_ = w.pipe.Close() // as the kernel does when we are killed
		} else {
			w.release()
			_ = sleeper.Process.Signal(syscall.SIGUSR1) // ends it in another way
		}
		err = sleeper.Wait()
		w.release()
		if got := strings.Contains(err.Error(), "terminated"); got != dies {
			t.Errorf("the sleeper ended with %v", err)
		}
	}
}
