package servers_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"outboxplayground/infra/servers"
)

func TestEndpointsLiveAsLongAsTheirOwner(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	mustHaveNoOwner(t, home)
	release, ok, err := servers.Lock(home)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	mustHaveNoOwner(t, home) // an owner that has written nothing yet
	want := servers.Endpoints{PID: 42, API: "http://127.0.0.1:8000", Servers: []servers.Info{{Name: "nats", URL: "nats://127.0.0.1:1", Mode: servers.Embedded}}}
	must(t, servers.WriteEndpoints(home, want))
	got, err := servers.ReadEndpoints(home)
	if err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	if i, ok := got.Lookup("nats"); !ok || i.URL != "nats://127.0.0.1:1" {
		t.Errorf("looked up %+v", i)
	}
	if _, ok, err := servers.Lock(home); ok || err != nil {
		t.Errorf("a second owner: %v, %v", ok, err)
	}
	must(t, release())
	mustHaveNoOwner(t, home)
}

func TestEndpointsAreForTheirOwnerOnly(t *testing.T) {
	home := t.TempDir()
	must(t, servers.WriteEndpoints(home, servers.Endpoints{}))
	must(t, servers.WriteEndpoints(home, servers.Endpoints{PID: 1}))
	files, _ := filepath.Glob(filepath.Join(home, "endpoints*"))
	if len(files) != 1 {
		t.Fatalf("drafts left: %v", files)
	}
	info, err := os.Stat(files[0])
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// What a killed owner leaves behind is stale at once, and the next owner does not
// take it over.
func TestEndpointsOfAKilledOwnerAreStale(t *testing.T) {
	home := t.TempDir()
	o := startOwner(t, form{"home", home})
	if got, err := servers.ReadEndpoints(home); err != nil || got.PID != o.cmd.Process.Pid {
		t.Fatalf("read %+v, %v", got, err)
	}
	if _, ok, err := servers.Lock(home); ok || err != nil {
		t.Fatalf("a second owner: %v, %v", ok, err)
	}
	must(t, o.cmd.Process.Kill())
	_ = o.cmd.Wait()
	mustHaveNoOwner(t, home)
	release, ok, err := servers.Lock(home)
	if err != nil || !ok {
		t.Fatalf("the lock of a dead process: %v, %v", ok, err)
	}
	mustHaveNoOwner(t, home) // though it lives now, it has not written the file
	must(t, release())
}

func mustHaveNoOwner(t *testing.T, home string) {
	t.Helper()
	if e, err := servers.ReadEndpoints(home); !errors.Is(err, servers.ErrNoOwner) {
		t.Fatalf("read %+v, %v", e, err)
	}
}

func TestFreshRemovesDataOnly(t *testing.T) {
	home := t.TempDir()
	for _, name := range servers.Names() {
		must(t, os.MkdirAll(filepath.Join(home, name, "data"), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(home, "mine"), nil, 0o600))
	must(t, servers.Fresh(home))
	left, err := os.ReadDir(home)
	must(t, err)
	if len(left) != 1 || left[0].Name() != "mine" {
		t.Errorf("left: %v", left)
	}
}

func TestHome(t *testing.T) {
	t.Setenv("OUTBOX_PLAYGROUND_HOME", "")
	if !filepath.IsAbs(servers.Home()) {
		t.Errorf("home is %s", servers.Home())
	}
	t.Setenv("OUTBOX_PLAYGROUND_HOME", "/elsewhere")
	if servers.Home() != "/elsewhere" {
		t.Errorf("home is %s", servers.Home())
	}
}
