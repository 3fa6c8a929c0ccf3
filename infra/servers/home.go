package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Home is the directory in which the playground's private servers keep their data
// between starts: OUTBOX_PLAYGROUND_HOME; as root /var/lib/outbox-playground,
// since PostgreSQL runs as another user there, who cannot enter root's own
// directories; else a folder in the user's cache directory.
func Home() string {
	if dir := os.Getenv("OUTBOX_PLAYGROUND_HOME"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/outbox-playground"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "outbox-playground", "home")
}

// Endpoints is what the process that owns the private servers tells the others.
type Endpoints struct {
	PID     int    // of the owner
	API     string // base URL of its HTTP interface, empty if it has none
	Servers []Info
}

// Info is one server as others need to know it. It holds no data directory, but
// URL may hold a password: print Redact(URL).
type Info struct {
	Name    string
	URL     string
	Mode    string // Real, Embedded, Fake or Off
	Version string
	Note    string
	Fix     string // how to turn it on, when Mode is Off
	State   string // the owner's word: "starting", "ready", "off", …
}

// Info returns what others need to know of a server that answers.
func (s *Server) Info() Info {
	return Info{Name: s.Name, URL: s.URL, Mode: s.Mode, Version: s.Version, Note: s.Note, State: "ready"}
}

// Lookup returns the named server.
func (e *Endpoints) Lookup(name string) (Info, bool) {
	for _, i := range e.Servers {
		if i.Name == name {
			return i, true
		}
	}
	return Info{}, false
}

// WriteEndpoints replaces the endpoints file, readable by its owner alone. Readers
// see the old file or the new one, never a part. Call it while holding the Lock.
func WriteEndpoints(home string, e Endpoints) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(home, "endpoints-*.tmp") // CreateTemp makes it 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), endpointsFile(home))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// ErrNoOwner says that no living process owns the servers of this home.
var ErrNoOwner = errors.New("servers: no playground is running here")

// ReadEndpoints returns what the living owner has written. When it has died, by
// whatever cause, the file is stale and the answer is ErrNoOwner; likewise while
// a new owner has not written its own yet.
func ReadEndpoints(home string) (*Endpoints, error) {
	if !owner(home) {
		return nil, ErrNoOwner
	}
	b, err := os.ReadFile(endpointsFile(home))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoOwner
	}
	if err != nil {
		return nil, err
	}
	var e Endpoints
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("servers: %s: %w", endpointsFile(home), err)
	}
	return &e, nil
}

func endpointsFile(home string) string { return filepath.Join(home, "endpoints.json") }
func homeLock(home string) string      { return filepath.Join(home, "owner.lock") }

// owner reports whether a process holds the lock of this home. It looks by trying
// to share the lock, for an instant.
func owner(home string) bool {
	f, err := os.Open(homeLock(home))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, false), errLocked)
}

// lockPatience covers the instants in which owner looks at the lock.
const lockPatience = 300 * time.Millisecond

// Lock makes this process the owner of the servers in home, which it creates if
// need be. ok is false when another one is; then ask ReadEndpoints. The lock ends
// with release, and with the process, SIGKILL included. A new owner begins
// without endpoints: those of a dead one are removed.
func Lock(home string) (release func() error, ok bool, err error) {
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	for {
		f, err := lockFile(homeLock(home))
		switch {
		case err == nil:
			return own(home, f)
		case !errors.Is(err, errLocked):
			return nil, false, err
		case ctx.Err() != nil:
			return nil, false, nil
		}
		pause(ctx, 10*time.Millisecond)
	}
}

func own(home string, lock *os.File) (release func() error, ok bool, err error) {
	forget := func() error {
		err := os.Remove(endpointsFile(home))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err := forget(); err != nil {
		return nil, false, errors.Join(err, lock.Close())
	}
	return func() error { return errors.Join(forget(), lock.Close()) }, true, nil
}

// Fresh removes the data of every server in home. Call it while holding the Lock
// and before starting a server there.
func Fresh(home string) error {
	var errs []error
	for _, name := range Names() {
		errs = append(errs, os.RemoveAll(filepath.Join(home, name)))
	}
	return errors.Join(errs...)
}
