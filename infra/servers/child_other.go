//go:build unix && !linux

package servers

import (
	"os/exec"
	"syscall"
)

// startDying starts cmd with a watcher beside it, since this system has no
// signal for the death of a parent.
func startDying(cmd *exec.Cmd, death syscall.Signal) (release func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w, err := watch(cmd.Process.Pid, death)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	return w.release, nil
}

// descendants is empty here: the process group has to do.
func descendants(int) []int { return nil }
