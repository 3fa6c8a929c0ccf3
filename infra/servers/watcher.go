package servers

import (
	"fmt"
	"os/exec"
	"syscall"
)

// watch starts a shell that waits for our end of a pipe to close, which happens
// at the latest when this process dies, and then sends the signal to pid. The
// returned function ends the watcher without the signal; call it when pid has
// ended. It is for systems without PR_SET_PDEATHSIG.
func watch(pid int, death syscall.Signal) (release func(), err error) {
	w := exec.Command("/bin/sh", "-c", fmt.Sprintf("read -r _; kill -%d %d 2>/dev/null", int(death), pid))
	w.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := w.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := w.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = w.Process.Kill()
		_ = w.Wait()
		_ = pipe.Close()
	}, nil
}
