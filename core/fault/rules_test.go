package fault_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"outboxplayground/core/fault"
)

func TestCutResetsOpenConnectionsOnly(t *testing.T) {
	forBoth(t, func(t *testing.T, network string) {
		p := newProxy(t)
		ended := make(chan error, 2)
		s := serve(t, network, func(c net.Conn) { _, err := io.Copy(c, c); ended <- err })
		c, other := s.dial(t, p, "relay"), s.dial(t, p, "consumer")
		f := inject(t, p, fault.Rule{Kind: fault.Cut, Role: "relay"})
		expectReset(t, c)
		<-ended // the server noticed too
		<-f.Done()
		if f.Hits() != 1 || len(p.Active()) != 0 {
			t.Errorf("hits %d, active %v; want 1 and none", f.Hits(), p.Active())
		}
		for _, c := range []net.Conn{other, s.dial(t, p, "relay")} {
			send(t, c, "ping")
			expect(t, c, "ping")
		}
	})
}

func TestRefuseSparesOpenConnections(t *testing.T) {
	p := newProxy(t)
	s, other := echo(t, "tcp"), echo(t, "tcp")
	c := s.dial(t, p, "relay")
	f := inject(t, p, fault.Rule{Kind: fault.Refuse, Target: s.Addr().String()})
	expectRefused(t, s.dialError(t, p, "relay"))
	send(t, c, "ping")
	expect(t, c, "ping")
	other.dial(t, p, "relay")
	if f.Hits() != 1 {
		t.Errorf("hits %d; want 1", f.Hits())
	}
	f.Lift()
	s.dial(t, p, "relay")
}

func TestOutageCutsAndRefusesUntilLifted(t *testing.T) {
	forBoth(t, func(t *testing.T, network string) {
		p := newProxy(t)
		s := echo(t, network)
		c := s.dial(t, p, "broker/relay")
		f := inject(t, p, fault.Rule{Name: "broker-down", Kind: fault.Outage, Role: "broker"})
		expectReset(t, c)
		expectRefused(t, s.dialError(t, p, "broker/producer"))
		s.dial(t, p, "brokers") // another role
		if got := f.Counts(); got.Cut != 1 || got.Refused != 1 || f.Hits() != 2 {
			t.Errorf("counts %+v, hits %d", got, f.Hits())
		}
		if a := p.Active(); len(a) != 1 || a[0].Name != "broker-down" || a[0].Hits != 2 || a[0].Expires.Sub(a[0].Since) != fault.DefaultTTL {
			t.Errorf("active: %+v", a)
		}
		f.Lift()
		c = s.dial(t, p, "broker/relay")
		send(t, c, "ping")
		expect(t, c, "ping")
	})
}

func TestStallHoldsBytesAndDials(t *testing.T) {
	p := newProxy(t)
	requests := make(chan string, 2)
	s := serve(t, "tcp", func(c net.Conn) {
		io.WriteString(c, "hello")
		buf := make([]byte, 16)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			requests <- string(buf[:n])
			io.WriteString(c, "answer")
		}
	})
	c := s.dial(t, p, "relay")
	expect(t, c, "hello")
	f := inject(t, p, fault.Rule{Kind: fault.Stall})
	send(t, c, "request")
	expectSilence(t, c)
	select {
	case r := <-requests:
		t.Fatalf("request %q passed a stall", r)
	default:
	}
	if err := s.dialError(t, p, "relay"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("dial into a stall: %v; want the deadline", err)
	}
	if n := f.Counts(); n.Held != 2 || n.HeldBytes != 7 {
		t.Errorf("counts %+v; want a chunk of 7 bytes and a dial", n)
	}
	f.Lift()
	expect(t, c, "answer")
	if r := <-requests; r != "request" {
		t.Errorf("request %q", r)
	}
}

func TestStallHoldsReplies(t *testing.T) {
	p := newProxy(t)
	speak := make(chan struct{})
	s := serve(t, "tcp", func(c net.Conn) { <-speak; io.WriteString(c, "late"); io.Copy(io.Discard, c) })
	c := s.dial(t, p, "relay")
	f := inject(t, p, fault.Rule{Kind: fault.Stall})
	close(speak)
	expectSilence(t, c)
	if n := f.Counts(); n.Held != 1 || n.HeldBytes != 4 {
		t.Errorf("counts %+v; want one chunk of 4 bytes", n)
	}
	f.Lift()
	expect(t, c, "late")
}

func TestHeldDialsGoOnOrAreRefused(t *testing.T) {
	p := newProxy(t)
	s := echo(t, "tcp")
	for _, next := range []fault.Kind{"", fault.Outage} {
		stall := inject(t, p, fault.Rule{Kind: fault.Stall})
		type result struct {
			c   net.Conn
			err error
		}
		dialled := make(chan result, 1)
		go func() {
			c, err := p.Dialer("relay")(t.Context(), "tcp", s.Addr().String())
			dialled <- result{c, err}
		}()
		eventually(t, "dial held", func() bool { return stall.Hits() == 1 })
		if next == "" {
			stall.Lift()
			r := <-dialled
			if r.err != nil {
				t.Fatal(r.err)
			}
			r.c.Close()
			continue
		}
		outage := inject(t, p, fault.Rule{Kind: next})
		expectRefused(t, (<-dialled).err)
		stall.Lift()
		outage.Lift()
	}
}

func TestDelayIsLatencyNotBandwidth(t *testing.T) {
	const delay, chunks = 200 * time.Millisecond, 8
	p := newProxy(t)
	s := echo(t, "tcp")
	c := s.dial(t, p, "relay")
	f := inject(t, p, fault.Rule{Kind: fault.Delay, Delay: delay})
	start := time.Now()
	var sent strings.Builder
	for i := range chunks {
		part := strings.Repeat(string(rune('a'+i)), 100)
		sent.WriteString(part)
		send(t, c, part)
		eventually(t, "chunk on its way", func() bool { return f.Counts().DelayedBytes == int64(sent.Len()) })
	}
	expect(t, c, sent.String())
	took := time.Since(start)
	if took < delay || took > delay*chunks/2 {
		t.Errorf("%d chunks took %v; want little more than %v", chunks, took, delay)
	}
	if f.Hits() != chunks {
		t.Errorf("hits %d; want %d", f.Hits(), chunks)
	}
}

func TestDelayKeepsOrderWhenLifted(t *testing.T) {
	p := newProxy(t)
	s := serve(t, "tcp", func(c net.Conn) { io.Copy(c, c) }) // ends after its last byte
	c := s.dial(t, p, "relay")
	f := inject(t, p, fault.Rule{Kind: fault.Delay, Delay: time.Hour})
	var sent strings.Builder
	for i := range 100 { // a queue that takes a while to empty
		part := strings.Repeat(string(rune('A'+i%26)), 1000)
		sent.WriteString(part)
		send(t, c, part)
		eventually(t, "chunk delayed", func() bool { return f.Counts().DelayedBytes == int64(sent.Len()) })
	}
	expectSilence(t, c)
	f.Lift()
	send(t, c, "the end")
	c.(interface{ CloseWrite() error }).CloseWrite()
	c.SetReadDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(c); string(got) != sent.String()+"the end" || err != nil {
		t.Errorf("got %d bytes, not those sent, or not in order; %v", len(got), err)
	}
}

func TestRulesEndByThemselves(t *testing.T) {
	p := newProxy(t)
	s := echo(t, "tcp")
	f := inject(t, p, fault.Rule{Kind: fault.Outage, TTL: 20 * time.Millisecond})
	expectRefused(t, s.dialError(t, p, "relay"))
	select {
	case <-f.Done():
	case <-time.After(patience):
		t.Fatal("the rule did not end")
	}
	eventually(t, "dials succeed", func() bool { return s.dialError(t, p, "relay") == nil })
	long := inject(t, p, fault.Rule{Kind: fault.Refuse, TTL: time.Hour})
	if st := long.Status(); st.Expires.Sub(st.Since) != fault.MaxTTL {
		t.Errorf("a long rule lives %v", st.Expires.Sub(st.Since))
	}
}

func TestUselessRulesAreErrors(t *testing.T) {
	p := newProxy(t)
	for _, r := range []fault.Rule{
		{}, {Kind: "flood"}, {Kind: fault.Delay}, {Kind: fault.Stall, Delay: 1}, {Kind: fault.Cut, TTL: -1},
		{Kind: fault.Outage, Arm: []byte("x")}, {Kind: fault.Stall, Once: true}, {Kind: fault.Delay, Delay: 1, CutAfter: 1},
		{Kind: fault.SwallowReplies, Arm: make([]byte, 1<<20)}, {Kind: fault.SwallowReplies, CutAfter: -1},
	} {
		if _, err := p.Inject(r); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	if len(p.Active()) != 0 {
		t.Errorf("active: %v", p.Active())
	}
}

func TestSeveralRulesAtOnce(t *testing.T) {
	p := newProxy(t)
	s := echo(t, "tcp")
	a, b := s.dial(t, p, "a"), s.dial(t, p, "b")
	slow := inject(t, p, fault.Rule{Kind: fault.Delay, Delay: time.Hour, Role: "a"})
	mute := inject(t, p, fault.Rule{Kind: fault.SwallowReplies, Role: "b"})
	send(t, a, "one")
	send(t, b, "two")
	eventually(t, "both hit", func() bool { return slow.Hits() == 1 && mute.Hits() == 1 })
	expectSilence(t, a)
	slow.Lift()
	expect(t, a, "one")
	mute.Lift()
	expectReset(t, b)
}
