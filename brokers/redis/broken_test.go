package redis

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
)

// halfDeaf is a connection that breaks after it has let through some answers to XADD.
type halfDeaf struct {
	net.Conn
	lines *bufio.Reader
	rest  []byte        // of a line that the caller had no room for
	left  *atomic.Int32 // answers still to be let through
}

func (c *halfDeaf) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		line, err := c.lines.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if isEntryID(line) && c.left.Add(-1) < 0 {
			return 0, errors.New("cut by the test")
		}
		c.rest = line
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func isEntryID(line []byte) bool {
	before, after, ok := bytes.Cut(bytes.TrimSpace(line), []byte("-"))
	_, err1 := strconv.Atoi(string(before))
	_, err2 := strconv.Atoi(string(after))
	return ok && err1 == nil && err2 == nil
}

// Of a pipeline that breaks half way, what was answered is known.
func TestWhatWasAnsweredBeforeTheCutIsAccepted(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var left atomic.Int32
		b := open(t, bus.Config{URL: url, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
			return &halfDeaf{Conn: c, lines: bufio.NewReader(c), left: &left}, err
		}}, Options{})
		left.Store(1000)
		prepare(t, b, "g")
		left.Store(3)
		err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(5)...)
		for i := range 5 {
			want := bus.Accepted
			if i >= 3 {
				want = bus.Ambiguous
			}
			kit.WantClass(t, bus.Outcome(err, i), want)
		}
		left.Store(1000)
		if n, err := b.Backlog(t.Context(), "safe", "g"); err != nil || n != 5 {
			t.Errorf("the server has %d (%v); all five were written", n, err)
		}
	})
}

// slowConn writes only while its gate is open.
type slowConn struct {
	net.Conn
	gate *sync.RWMutex
}

func (c slowConn) Write(p []byte) (int, error) {
	c.gate.RLock()
	defer c.gate.RUnlock()
	return c.Conn.Write(p)
}

// A consumer that was held up for so long that others have claimed what it holds
// does not hand that to its handler any more.
func TestAConsumerHeldUpTooLongLetsGo(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var gate sync.RWMutex
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
			return slowConn{c, &gate}, err
		}
		opt := Options{ClaimIdle: 500 * time.Millisecond}
		far := open(t, bus.Config{URL: url, Dial: dial}, opt)
		near := open(t, bus.Config{URL: url, Prefix: far.cfg.Prefix}, opt)
		prepare(t, near, "g")
		if err := near.Publish(kit.Within(t, 5*time.Second), kit.Messages(4)...); err != nil {
			t.Fatal(err)
		}
		begun, goOn := make(chan struct{}), make(chan struct{})
		one := subscribe(t, far, "g", func(n int, _ bus.Message) error {
			if n == 1 {
				close(begun)
				<-goOn
			}
			return nil
		})
		<-begun
		gate.Lock() // as if the process were stopped: the connections stay
		two := subscribe(t, near, "g", nil)
		kit.Eventually(t, 10*time.Second, "the other one to claim all 4", func() bool { return two.Distinct() == 4 })
		gate.Unlock()
		close(goOn)
		two.End(t)
		last := kit.Message(9)
		if err := near.Publish(kit.Within(t, 5*time.Second), last); err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, 10*time.Second, "the held-up consumer to go on", func() bool {
			got := one.All()
			return len(got) > 0 && got[len(got)-1].ID == last.ID
		})
		noBacklog(t, near, "g")
		if n := len(one.All()); n != 2 {
			t.Errorf("the held-up consumer handled %d messages, want the one in its hands and the new one", n)
		}
		if n := len(two.All()); n != 4 {
			t.Errorf("the other one handled %d, want 4", n)
		}
	})
}
