package fault

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// askPS reads the state from ps, which knows a stopped process and a zombie on
// every Unix. It is the way where there is no /proc.
func askPS(ctx context.Context, pid int) (state, error) {
	out, err := exec.CommandContext(ctx, "ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	letters := strings.TrimSpace(string(out))
	var exit *exec.ExitError
	switch {
	case letters == "" && (err == nil || errors.As(err, &exit) && exit.Exited()):
		return dead, nil // ps knows no such process
	case err != nil:
		return "", fmt.Errorf("fault: ps: %w", err)
	}
	switch letters[0] {
	case 'Z', 'X':
		return dead, nil
	case 'T', 't':
		return stopped, nil
	}
	return running, nil
}
