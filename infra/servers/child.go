package servers

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
)

// account is the user that a child runs as; nil stands for our own.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged returns the first of the named accounts that exists when we are
// root, nil otherwise. PostgreSQL refuses to run as root, and a Redis that does
// would write its files for anybody who can connect.
func unprivileged(names ...string) *account {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range append(names, "nobody") {
		if u, err := user.Lookup(name); err == nil {
			uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
			gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
			if err1 == nil && err2 == nil {
				return &account{name, uint32(uid), uint32(gid)}
			}
		}
	}
	return nil
}

// spec is a process to be run.
type spec struct {
	path  string
	args  []string
	env   []string // added to a minimal environment
	dir   string
	as    *account
	stop  syscall.Signal // asks it to end
	death syscall.Signal // what it gets when our process dies
}

// child is a process that ends with ours. Output goes to a file, so that no
// goroutine has to copy it and it can outlive the pipe.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended, after done
}

// launch starts the process. A goroutine with a thread of its own waits for it:
// Linux sends the death signal when the *thread* that made the child ends.
func launch(s spec, log *os.File) (*child, error) {
	cmd := exec.Command(s.path, s.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + s.dir}, s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach it before us
	if s.as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.as.uid, Gid: s.as.gid}
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go c.run(s.death, started)
	return c, <-started
}

func (c *child) run(death syscall.Signal, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	release, err := startDying(c.cmd, death)
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	release()
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) } // it may have ended: fine

// kill ends the process and all that descend from it, and waits for it.
func (c *child) kill() {
	select {
	case <-c.done:
		return
	default:
	}
	family := descendants(c.pid())
	c.signal(syscall.SIGKILL)
	_ = syscall.Kill(-c.pid(), syscall.SIGKILL)
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-c.done
}

// output runs a short-lived child to its end and returns what it printed.
func output(s spec) ([]byte, error) {
	cmd := exec.Command(s.path, s.args...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + s.dir}, s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.as.uid, Gid: s.as.gid}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s", s.path, err, out)
	}
	return out, nil
}
