package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// A client opens with one line, version word and JSON, and stays silent until it
// has read one line back: "ok", or "errno" with the number of a system error. The
// version word also keeps out whoever comes with another protocol, such as a web
// page that makes a browser post to this port.
const (
	version    = "outbox-fault/1 "
	maxOpening = 1 << 10
	maxAnswer  = 64
)

// wanted is what a client asks for.
type wanted struct {
	Role    string `json:"role"`
	Network string `json:"network"`
	Addr    string `json:"addr"`
}

func (w wanted) line() ([]byte, error) {
	body, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	line := append([]byte(version), body...)
	if line = append(line, '\n'); len(line) > maxOpening {
		return nil, fmt.Errorf("fault: role and address take more than %d bytes", maxOpening)
	}
	return line, nil
}

func parseOpening(line []byte) (w wanted, err error) {
	body, found := bytes.CutPrefix(line, []byte(version))
	if !found {
		return w, errors.New("fault: unknown opening line")
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return w, fmt.Errorf("fault: opening line: %w", err)
	}
	switch w.Network {
	case "tcp", "tcp4", "tcp6", "unix":
		return w, nil
	}
	return w, fmt.Errorf("fault: network %q is not proxied", w.Network)
}

// readLine reads up to a newline, one byte at a time: what follows the line
// belongs to the client's own protocol and must stay in the socket.
func readLine(c net.Conn, limit int) ([]byte, error) {
	line, one := make([]byte, 0, limit), make([]byte, 1)
	for len(line) < limit {
		if _, err := c.Read(one); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
		line = append(line, one[0])
	}
	return nil, fmt.Errorf("fault: line longer than %d bytes", limit)
}

// answer is the proxy's line: nil for "ok", else the error of the real dial.
func answer(err error) string {
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case err == nil:
		return "ok\n"
	case errors.As(err, &errno):
	case errors.As(err, &timeout) && timeout.Timeout():
		errno = syscall.ETIMEDOUT
	default: // such as a name that does not resolve
		errno = syscall.EHOSTUNREACH
	}
	return fmt.Sprintf("errno %d\n", int(errno))
}

// parseAnswer gives back the error that answer wrote.
func parseAnswer(line []byte) error {
	var errno int
	if string(line) == "ok" {
		return nil
	}
	if _, err := fmt.Sscanf(string(line), "errno %d", &errno); err != nil || errno <= 0 {
		return fmt.Errorf("fault: unknown answer %q", line)
	}
	return syscall.Errno(errno)
}
