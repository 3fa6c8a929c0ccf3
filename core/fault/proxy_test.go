package fault_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"outboxplayground/core/fault"
)

// patience is how long a test waits for what must happen; never a pause.
const patience = 10 * time.Second

// quiet is how long nothing must come for a test to believe that nothing comes.
const quiet = 150 * time.Millisecond

func newProxy(t *testing.T) *fault.Proxy {
	t.Helper()
	before := goleak.IgnoreCurrent()
	p, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		goleak.VerifyNone(t, before)
	})
	return p
}

func inject(t *testing.T, p *fault.Proxy, r fault.Rule) *fault.Injected {
	t.Helper()
	f, err := p.Inject(r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// server is a server whose connections the test handles itself.
type server struct {
	net.Listener
	network string
	handled sync.WaitGroup
}

// serve runs handle for each connection and waits for all of them at the end.
func serve(t *testing.T, network string, handle func(net.Conn)) *server {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: ln, network: network}
	s.handled.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.handled.Go(func() { defer c.Close(); handle(c) })
		}
	})
	t.Cleanup(func() { ln.Close(); s.handled.Wait() })
	return s
}

func echo(t *testing.T, network string) *server {
	return serve(t, network, func(c net.Conn) { io.Copy(c, c) })
}

// dial connects through the proxy. The connection is closed before the server.
func (s *server) dial(t *testing.T, p *fault.Proxy, role string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := p.Dialer(role)(ctx, s.network, s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *server) dialError(t *testing.T, p *fault.Proxy, role string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), quiet)
	defer cancel()
	c, err := p.Dialer(role)(ctx, s.network, s.Addr().String())
	if err == nil {
		c.Close()
	}
	return err
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v; want %q", got, err, text)
	}
}

func expectSilence(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(quiet))
	n, err := c.Read(make([]byte, 1))
	var timeout net.Error
	if n != 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("read %d bytes, %v; want nothing and a timeout", n, err)
	}
}

func expectReset(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read: %v; want a reset", err)
	}
}

func expectRefused(t *testing.T, err error) {
	t.Helper()
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial: %v; want a refused dial", err)
	}
}

// eventually polls until ok or patience ends.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

func forBoth(t *testing.T, test func(t *testing.T, network string)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) { test(t, network) })
	}
}

func TestCarriesBytesAndHalfClose(t *testing.T) {
	forBoth(t, func(t *testing.T, network string) {
		p := newProxy(t)
		s := serve(t, network, func(c net.Conn) { // answers only after the end of the request
			all, _ := io.ReadAll(c)
			c.Write(all)
		})
		c := s.dial(t, p, "relay")
		big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		go func() { c.Write(big); c.(interface{ CloseWrite() error }).CloseWrite() }()
		c.SetDeadline(time.Now().Add(patience))
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, big) {
			t.Fatalf("%d bytes back, %v; want %d", len(got), err, len(big))
		}
	})
}

func TestServerSpeaksFirst(t *testing.T) {
	p := newProxy(t)
	s := serve(t, "tcp", func(c net.Conn) { io.WriteString(c, "ok\nINFO"); io.Copy(io.Discard, c) })
	expect(t, s.dial(t, p, "relay"), "ok\nINFO")
}

func TestThePeerIsTheServer(t *testing.T) {
	forBoth(t, func(t *testing.T, network string) {
		p := newProxy(t)
		s := echo(t, network)
		peer := s.dial(t, p, "db").RemoteAddr()
		if peer.Network() != network || peer.String() != s.Addr().String() {
			t.Errorf("peer %s %s; want %s", peer.Network(), peer, s.Addr())
		}
	})
}

func TestRealRefusalIsADialError(t *testing.T) {
	p := newProxy(t)
	s := echo(t, "tcp")
	s.Close()
	expectRefused(t, s.dialError(t, p, "relay"))
	u := echo(t, "unix")
	u.Close()
	var op *net.OpError
	if err := u.dialError(t, p, "db"); !errors.As(err, &op) || !errors.Is(err, syscall.ENOENT) {
		t.Fatalf("dial a missing socket: %v; want the system's ENOENT", err)
	}
}

func TestConnectionsShowsTheWantedAddress(t *testing.T) {
	p := newProxy(t)
	s := echo(t, "tcp")
	c := s.dial(t, p, "broker/relay")
	send(t, c, "abc")
	expect(t, c, "abc")
	list := p.Connections()
	if len(list) != 1 || list[0].Role != "broker/relay" || list[0].Target != s.Addr().String() {
		t.Fatalf("connections: %+v", list)
	}
	eventually(t, "3 bytes counted each way", func() bool {
		list := p.Connections()
		return list[0].Sent == 3 && list[0].Received == 3
	})
	c.Close()
	eventually(t, "connection forgotten", func() bool { return len(p.Connections()) == 0 })
}

func TestForeignProtocolIsTurnedAway(t *testing.T) {
	p := newProxy(t)
	for _, line := range []string{"GET / HTTP/1.1\r\n", "outbox-fault/1 {\n", `outbox-fault/1 {"network":"udp"}` + "\n", string(bytes.Repeat([]byte("x"), 2000))} {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		send(t, c, line)
		c.SetReadDeadline(time.Now().Add(patience))
		answer, err := io.ReadAll(c)
		if bytes.HasPrefix(answer, []byte("ok")) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%.20q: answer %q, %v; want to be turned away", line, answer, err)
		}
		c.Close()
	}
}

func TestDialHonoursItsContext(t *testing.T) {
	p := newProxy(t)
	s := echo(t, "tcp")
	f := inject(t, p, fault.Rule{Kind: fault.Stall})
	ctx, cancel := context.WithCancel(t.Context())
	dialled := make(chan error, 1)
	go func() {
		_, err := p.Dialer("relay")(ctx, "tcp", s.Addr().String())
		dialled <- err
	}()
	eventually(t, "dial held", func() bool { return f.Hits() == 1 })
	cancel()
	var op *net.OpError
	if err := <-dialled; !errors.As(err, &op) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled dial: %v", err)
	}
	start := time.Now()
	_, err := p.Dialer("relay")(context.Background(), "tcp", s.Addr().String())
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) > patience/2 {
		t.Errorf("dial without deadline: %v after %v; want a timeout after a second", err, time.Since(start))
	}
	if _, err := p.Dialer(strings.Repeat("r", 2000))(t.Context(), "tcp", "x"); err == nil {
		t.Error("an opening line beyond the limit was sent")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	p := newProxy(t) // its cleanup looks for goroutines left
	s := echo(t, "tcp")
	open, held := s.dial(t, p, "a"), s.dial(t, p, "b")
	f := inject(t, p, fault.Rule{Kind: fault.Stall, Role: "b"})
	send(t, held, "x")
	dialled := make(chan error, 1)
	go func() {
		_, err := p.Dialer("b")(t.Context(), "tcp", s.Addr().String())
		dialled <- err
	}()
	eventually(t, "a chunk and a dial held", func() bool { return f.Hits() == 2 })
	p.Close()
	if left := p.Connections(); len(left) != 0 {
		t.Errorf("Close left %+v", left)
	}
	p.Close()
	expectReset(t, open)
	expectReset(t, held)
	<-f.Done()
	if err := <-dialled; err == nil {
		t.Error("a held dial succeeded at Close")
	}
	if _, err := p.Inject(fault.Rule{Kind: fault.Cut}); !errors.Is(err, fault.ErrClosed) {
		t.Errorf("Inject after Close: %v", err)
	}
	expectRefused(t, s.dialError(t, p, "a"))
}
