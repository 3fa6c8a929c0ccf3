package servers_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// owner is another process of this test binary, with one server.
type owner struct {
	cmd    *exec.Cmd
	server int    // the server's process
	dir    string // the server's directory
}

func startOwner(t *testing.T, f form) owner {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), ownerMark+"="+f.name, ownerMark+"_FORM="+f.mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	o := owner{cmd: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	if _, err := fmt.Sscanf(line, "up %d %s", &o.server, &o.dir); err != nil {
		t.Fatalf("the owner said %q: %v", line, err)
	}
	return o
}
