package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// startDying starts cmd so that the kernel sends it the signal when the calling
// thread ends (prctl(2), PR_SET_PDEATHSIG). The caller keeps the thread.
func startDying(cmd *exec.Cmd, death syscall.Signal) (release func(), err error) {
	cmd.SysProcAttr.Pdeathsig = death
	return func() {}, cmd.Start()
}

// descendants lists the processes below pid. PostgreSQL's have sessions of their
// own and RabbitMQ's helper outlives the death of its group, so that killing the
// group is not enough.
func descendants(pid int) []int {
	var all []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(b)) {
			if p, err := strconv.Atoi(word); err == nil {
				all = append(append(all, p), descendants(p)...)
			}
		}
	}
	return all
}
