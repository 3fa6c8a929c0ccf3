package browsertest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// line is the way from the browser to the playground, which a test can cut.
type line struct {
	listener net.Listener
	to       string
	carriers sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]bool
	down  bool
	turns int // connections refused while the line was down
}

// layLine starts a line to the playground; it ends with the test.
func (d *desk) layLine(t *testing.T) *line {
	t.Helper()
	l := &line{to: strings.TrimPrefix(d.api, "http://"), open: map[net.Conn]bool{}}
	var err error
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	l.carriers.Go(l.accept)
	t.Cleanup(func() {
		_ = l.listener.Close()
		l.cut()
		l.carriers.Wait()
	})
	return l
}

func (l *line) origin() string { return "http://" + l.listener.Addr().String() }

func (l *line) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return // the test is over
		}
		to, err := net.Dial("tcp", l.to)
		if err != nil || !l.keep(from, to) {
			_ = from.Close()
			continue
		}
		l.carriers.Go(func() { l.carry(from, to) })
		l.carriers.Go(func() { l.carry(to, from) })
	}
}

// keep notes both ends, or refuses them while the line is down.
func (l *line) keep(from, to net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		l.turns++
		_ = to.Close()
		return false
	}
	l.open[from], l.open[to] = true, true
	return true
}

// carry copies until one end is closed, and closes the other.
func (l *line) carry(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, from)
}

// cut closes every connection and takes no new one until mend.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.open {
		_ = c.Close()
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// refused tells how many connections were tried while the line was down.
func (l *line) refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns
}
