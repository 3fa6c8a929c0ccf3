package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// look reads the states of the process's threads from /proc. A process counts as
// stopped when every thread is: a stop reaches them one after the other.
func look(_ context.Context, pid int) (state, error) {
	leader, err := letter(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return "", err
	}
	halted, alive := 0, 0
	for _, task := range tasks {
		l, err := letter(task)
		if err != nil {
			return "", err
		}
		switch l {
		case 'Z', 'X': // a thread that has ended
		case 'T', 't':
			halted++
			alive++
		default:
			alive++
		}
	}
	switch {
	case alive == 0 && (leader == 'Z' || leader == 'X' || len(tasks) == 0):
		return dead, nil
	case alive > 0 && halted == alive:
		return stopped, nil
	}
	return running, nil
}

// letter returns the state letter of a stat file, X when there is none any more.
// The name before it is in parentheses and may hold some itself.
func letter(file string) (byte, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 'X', nil
	}
	if err != nil {
		return 0, err
	}
	i := bytes.LastIndex(text, []byte(") "))
	if i < 0 || i+2 >= len(text) {
		return 0, fmt.Errorf("fault: cannot read %s", file)
	}
	return text[i+2], nil
}
