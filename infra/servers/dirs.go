package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// tempPrefix marks the temporary directories that are ours to sweep.
const tempPrefix = "outbox-playground-"

// tempDir is a temporary directory whose owner holds a lock while it lives, so
// that a later process can tell which ones a killed process has left behind.
type tempDir struct {
	path string
	lock *os.File
}

func newTempDir(name string) (*tempDir, error) {
	sweep(os.TempDir())
	path, err := os.MkdirTemp("", tempPrefix+name+"-")
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(path, "owner.lock"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	// Open to be entered, so that a server which runs as another user reaches its
	// own directory inside; what is inside is closed.
	return &tempDir{path, lock}, os.Chmod(path, 0o711)
}

// remove deletes the directory; on nil, and the second time, it does nothing.
func (t *tempDir) remove() error {
	if t == nil || t.lock == nil {
		return nil
	}
	err := os.RemoveAll(t.path)
	err = errors.Join(err, t.lock.Close())
	t.lock = nil
	return err
}

// sweepAge spares a directory that its owner has made but not locked yet, and
// gives the servers of a killed process the time to end.
const sweepAge = 2 * time.Minute

// sweep removes the temporary directories whose owners have died. What it cannot
// remove (another user's) it leaves.
func sweep(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, tempPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		lock, err := lockFile(filepath.Join(dir, "owner.lock"))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

// errLocked says that another open file holds the lock.
var errLocked = errors.New("servers: locked by a living process")

// lockFile takes an exclusive lock that ends with the file, at the latest when
// the process dies. It does not wait.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, true); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func flock(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// owned makes dir and gives it to the account, closed to everybody else.
func owned(dir string, a *account) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if a == nil {
		return nil
	}
	if err := reachable(dir, a); err != nil {
		return err
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}

// reachable reports the first parent of dir that the account may not enter. The
// kernel would only say "permission denied" about the program to be run.
func reachable(dir string, a *account) error {
	for p := filepath.Dir(dir); ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if !enters(info, a) {
			return fmt.Errorf("servers: user %s cannot enter %s; chmod o+x it, or set OUTBOX_PLAYGROUND_HOME to a directory elsewhere", a.name, p)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

func enters(info os.FileInfo, a *account) bool {
	mode := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return true
	case st.Uid == a.uid:
		return mode&0o100 != 0
	case st.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// tail returns the last lines of a log file.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
