package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken below the range from which Linux (32768) and macOS (49152)
// give outgoing connections theirs: a server that is down between Kill and
// Restart would lose its port to any client otherwise.
const (
	portFrom = 15000
	portTo   = 32000
)

// choosePort returns want, or a free port of 127.0.0.1 when want is zero.
func choosePort(want int) (int, error) {
	if want != 0 {
		return want, nil
	}
	for range 100 {
		port := portFrom + rand.IntN(portTo-portFrom)
		if free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("servers: no free port between %d and %d", portFrom, portTo)
}

// choosePorts returns n different free ports.
func choosePorts(n int) ([]int, error) {
	seen := map[int]bool{}
	var ports []int
	for len(ports) < n {
		p, err := choosePort(0)
		if err != nil {
			return nil, err
		}
		if !seen[p] {
			seen[p] = true
			ports = append(ports, p)
		}
	}
	return ports, nil
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
