package servers

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// watcher is a shell that outlives us for an instant. It is for systems without
// PR_SET_PDEATHSIG.
type watcher struct {
	shell *exec.Cmd
	pipe  io.Closer
}

// watch starts a shell that waits for our end of a pipe to close, which happens
// at the latest when this process dies, and then sends the signal to pid.
func watch(pid int, death syscall.Signal) (*watcher, error) {
	shell := exec.Command("/bin/sh", "-c", fmt.Sprintf("read -r _; kill -%d %d 2>/dev/null", int(death), pid))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := shell.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &watcher{shell, pipe}, shell.Start()
}

// release ends the watcher without the signal, when pid has ended. Twice is fine.
func (w *watcher) release() {
	_ = w.shell.Process.Kill()
	_ = w.shell.Wait()
	_ = w.pipe.Close()
}
