package servers_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// form is one way in which a server can be run.
type form struct{ name, mode string }

func (f form) String() string { return f.name + "/" + f.mode }

func forms() []form {
	return []form{
		{"postgres", servers.Real}, {"redis", servers.Real}, {"redis", servers.Fake}, {"nats", servers.Embedded},
		{"nats", servers.Real}, {"kafka", servers.Fake}, {"kafka", servers.Real}, {"rabbitmq", servers.Real},
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestDataSurvivesACrash(t *testing.T) {
	for _, f := range forms() {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			ctx, p := testContext(t), pocketOf(t, f.name)
			s := servertest.Start(t, f.name, servers.Options{Form: f.mode, NoSync: true})
			mustBe(t, s, f)
			must(t, p.put(ctx, s.URL, "kept"))
			mustBeRegistered(t, s)
			before, addr := s.PID(), s.URL
			must(t, s.Kill())
			mustRefuse(t, s)
			must(t, s.Restart(ctx))
			if s.URL != addr {
				t.Errorf("the address changed from %s to %s", addr, s.URL)
			}
			if f.mode == servers.Real && (s.PID() == before || alive(before)) {
				t.Errorf("process %d was not killed; now %d", before, s.PID())
			}
			mustTake(t, p, s.URL, "kept")
			must(t, s.Stop(ctx))
			mustLeaveNothing(t, s)
		})
	}
}

func TestDataSurvivesAnOrderlyEnd(t *testing.T) {
	for _, f := range forms() {
		if f == (form{"redis", servers.Fake}) {
			continue // it has no disk, and says so in its note
		}
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			ctx, p := testContext(t), pocketOf(t, f.name)
			o := servers.Options{Form: f.mode, Dir: reachableDir(t), NoSync: true}
			first := servertest.Start(t, f.name, o)
			must(t, p.put(ctx, first.URL, "kept"))
			must(t, first.Stop(ctx))
			second := servertest.Start(t, f.name, o)
			mustTake(t, p, second.URL, "kept")
		})
	}
}

// A server must not outlive us: whoever kills the playground with SIGKILL would
// find a PostgreSQL and a RabbitMQ in the way for ever.
func TestNoOrphanAfterSIGKILL(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc; TestWatcher covers the way of other systems")
	}
	for _, f := range forms() {
		if f.mode != servers.Real {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			servertest.Start(t, f.name, servers.Options{Form: f.mode, NoSync: true}) // skips where it is missing
			o := startOwner(t, f)
			if !alive(o.server) || len(processesIn(o.dir)) == 0 {
				t.Fatalf("process %d does not run", o.server)
			}
			must(t, o.cmd.Process.Kill())
			_ = o.cmd.Wait() // "signal: killed", as intended
			eventually(t, func() bool { return !alive(o.server) && len(processesIn(o.dir)) == 0 },
				"processes left in %s: %v", o.dir, processesIn(o.dir))
			must(t, os.RemoveAll(o.dir))
		})
	}
}

func TestRunningServerIsRestarted(t *testing.T) {
	s := servertest.Start(t, "redis", servers.Options{Form: servers.Real})
	before := s.PID()
	must(t, s.Restart(testContext(t)))
	if s.PID() == before || alive(before) {
		t.Errorf("process %d goes on", before)
	}
	must(t, s.Stop(context.Background()))
	must(t, s.Stop(context.Background())) // twice is fine
}

// mustBe checks what the server says of itself; a double in a test binary knows
// the name of its library only.
func mustBe(t *testing.T, s *servers.Server, f form) {
	t.Helper()
	if s.Mode != f.mode || s.Note == "" || s.Version == "" {
		t.Fatalf("mode %q, version %q, note %q", s.Mode, s.Version, s.Note)
	}
	told, err := servers.Probe(testContext(t), f.name, s.URL)
	must(t, err)
	if f == (form{"kafka", servers.Real}) && !strings.HasPrefix(told, "metadata.version ") {
		t.Errorf("Kafka told %q", told)
	}
	if f.mode != servers.Fake && !strings.ContainsAny(s.Version, "0123456789") {
		t.Errorf("version %q", s.Version)
	}
}

// mustBeRegistered waits until a RabbitMQ node has written the name of its quorum
// queue to disk: see Kill.
func mustBeRegistered(t *testing.T, s *servers.Server) {
	t.Helper()
	if s.Name != "rabbitmq" {
		return
	}
	eventually(t, func() bool {
		files, _ := filepath.Glob(filepath.Join(s.Dir, "mnesia", "*", "quorum", "*", "names.dets"))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err == nil && strings.Contains(string(b), "pocket") {
				return true
			}
		}
		return false
	}, "the queue does not appear in names.dets")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustTake(t *testing.T, p pocket, url, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	got, err := p.take(ctx, url)
	if err != nil || got != want {
		t.Fatalf("took %q, %v; want %q", got, err, want)
	}
}

func mustRefuse(t *testing.T, s *servers.Server) {
	t.Helper()
	addr := s.URL
	if u, err := url.Parse(s.URL); err == nil && u.Host != "" {
		addr = u.Host
	}
	if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		_ = c.Close()
		t.Fatalf("%s still answers at %s", s.Name, addr)
	}
}

func mustLeaveNothing(t *testing.T, s *servers.Server) {
	t.Helper()
	mustRefuse(t, s)
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", s.Dir, err)
	}
	eventually(t, func() bool { return len(processesIn(s.Dir)) == 0 }, "processes left in %s", s.Dir)
}

func eventually(t *testing.T, ok func() bool, format string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf(format, args...)
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// processesIn lists the processes whose working directory is in dir.
func processesIn(dir string) []int {
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to+"/", dir+"/") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(l)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// reachableDir is a temporary directory that PostgreSQL's user can enter too;
// those of testing.T are closed to others.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "servers-test-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}
