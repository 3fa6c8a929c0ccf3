package fault_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"outboxplayground/core/fault"
)

// inbox is a server that keeps what it was sent and acknowledges each read.
func inbox(t *testing.T) (s *server, received func() string, ended <-chan error) {
	var mu sync.Mutex
	var all []byte
	done := make(chan error, 8)
	s = serve(t, "tcp", func(c net.Conn) {
		buf := make([]byte, 1024)
		for {
			n, err := c.Read(buf)
			mu.Lock()
			all = append(all, buf[:n]...)
			mu.Unlock()
			if err != nil {
				done <- err
				return
			}
			io.WriteString(c, "ack")
		}
	})
	return s, func() string { mu.Lock(); defer mu.Unlock(); return string(all) }, done
}

func TestSwallowLetsRequestsPass(t *testing.T) {
	p := newProxy(t)
	s, received, ended := inbox(t)
	c := s.dial(t, p, "relay")
	send(t, c, "before.")
	expect(t, c, "ack")
	f := inject(t, p, fault.Rule{Kind: fault.SwallowReplies})
	send(t, c, "during.")
	expectSilence(t, c)
	if n := f.Counts(); n.Swallowed != 1 || n.SwallowedBytes != 3 || f.Hits() != 1 {
		t.Errorf("counts %+v, hits %d", n, f.Hits())
	}
	f.Lift()
	expectReset(t, c) // a stream with a hole must not go on
	if err := <-ended; err != io.EOF {
		t.Errorf("the server read %v; want a clean end", err)
	}
	if got := received(); got != "before.during." {
		t.Errorf("the server has %q", got)
	}
}

func TestSwallowArmsAcrossChunks(t *testing.T) {
	p := newProxy(t)
	s, received, _ := inbox(t)
	c := s.dial(t, p, "relay")
	f := inject(t, p, fault.Rule{Kind: fault.SwallowReplies, Arm: []byte("event-13")})
	for _, part := range []string{"event-12 ev", "e", "nt-", "1"} {
		send(t, c, part)
		expect(t, c, "ack")
	}
	if n := f.Counts(); n != (fault.Counts{}) {
		t.Errorf("counts before arming: %+v", n)
	}
	send(t, c, "3 and more")
	expectSilence(t, c)
	if n := f.Counts(); n.Armed != 1 || n.Swallowed != 1 || n.SwallowedBytes != 3 {
		t.Errorf("counts %+v", n)
	}
	if got := received(); got != "event-12 event-13 and more" {
		t.Errorf("the server has %q", got)
	}
	other := s.dial(t, p, "relay")
	send(t, other, "event-14")
	expect(t, other, "ack")
}

func TestSwallowCutAfterAndOnce(t *testing.T) {
	p := newProxy(t)
	s, received, ended := inbox(t)
	f := inject(t, p, fault.Rule{Kind: fault.SwallowReplies, Arm: []byte("13"), Once: true, CutAfter: time.Millisecond})
	c := s.dial(t, p, "relay")
	send(t, c, "event-13.")
	expectReset(t, c)
	if err := <-ended; err != io.EOF {
		t.Errorf("the server read %v; want a clean end", err)
	}
	<-f.Done() // spent
	c = s.dial(t, p, "relay")
	send(t, c, "event-13.")
	expect(t, c, "ack")
	if n := f.Counts(); n.Armed != 1 || n.Swallowed != 1 || n.Cut != 1 || f.Hits() != 1 {
		t.Errorf("counts %+v, hits %d", n, f.Hits())
	}
	if got := received(); got != "event-13.event-13." {
		t.Errorf("the server has %q", got)
	}
}

func TestOnceStrikesOneOfTwo(t *testing.T) {
	p := newProxy(t)
	s, _, _ := inbox(t)
	a, b := s.dial(t, p, "relay"), s.dial(t, p, "relay")
	inject(t, p, fault.Rule{Kind: fault.SwallowReplies, Once: true})
	send(t, a, "x")
	expectSilence(t, a)
	send(t, b, "y")
	expect(t, b, "ack")
}

func TestOnceStrikesOneOfTwoThatSendTheSameEvent(t *testing.T) {
	p := newProxy(t)
	s, _, _ := inbox(t)
	a, b := s.dial(t, p, "relay"), s.dial(t, p, "relay")
	f := inject(t, p, fault.Rule{Kind: fault.SwallowReplies, Arm: []byte("13"), Once: true})
	send(t, a, "event-13")
	expectSilence(t, a)
	send(t, b, "event-13")
	expect(t, b, "ack")
	if n := f.Counts(); n.Armed != 1 || n.Swallowed != 1 {
		t.Errorf("counts %+v", n)
	}
}

func TestLiftOfAnArmedRuleThatTookNothing(t *testing.T) {
	p := newProxy(t)
	asked, speak := make(chan struct{}), make(chan struct{})
	s := serve(t, "tcp", func(c net.Conn) {
		c.Read(make([]byte, 8))
		close(asked)
		<-speak
		io.WriteString(c, "ack")
		io.Copy(io.Discard, c)
	})
	c := s.dial(t, p, "relay")
	f := inject(t, p, fault.Rule{Kind: fault.SwallowReplies, Arm: []byte("13")})
	send(t, c, "13")
	<-asked
	f.Lift()
	close(speak)
	expect(t, c, "ack")
	if n := f.Counts(); n.Armed != 1 || f.Hits() != 0 {
		t.Errorf("counts %+v, hits %d; want armed, not hit", n, f.Hits())
	}
}
