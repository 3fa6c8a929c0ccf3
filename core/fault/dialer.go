package fault

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// dialTimeout bounds a dial whose context has no deadline, so that a stalled
// server cannot hold a client for ever: some client libraries dial without one.
const dialTimeout = time.Second

// Dialer returns a dial function that goes through the proxy at proxyAddr and
// gives role as the caller's part in the story. It fits the dial hooks of the
// client libraries and bus.DialFunc.
//
// The real server has been reached when it returns. If it refused, or a rule did,
// the error is what a direct dial would have returned: a *net.OpError for "dial"
// that wraps the system's error, so errors.Is(err, syscall.ECONNREFUSED) holds.
// A context without deadline gets one of a second.
//
// The connection has the methods of a *net.TCPConn, and says that its peer is addr.
func Dialer(proxyAddr, role string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, dialTimeout)
			defer cancel()
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxyAddr)
		if err != nil {
			return nil, err
		}
		if err := open(ctx, conn, wanted{Role: role, Network: network, Addr: addr}); err != nil {
			conn.Close()
			return nil, dialError(network, addr, err)
		}
		return &conduit{conn.(*net.TCPConn), peer(network, addr)}, nil
	}
}

// conduit is a connection to the proxy that names the server as its peer. Clients
// go by that name: pgx dials the peer's address again to cancel a query.
type conduit struct {
	*net.TCPConn
	server net.Addr
}

// RemoteAddr is the address that was dialled.
func (c *conduit) RemoteAddr() net.Addr { return c.server }

// peer is the address in the type that a direct connection would give it, unless
// it is a name that only the proxy has resolved.
func peer(network, addr string) net.Addr {
	if network == "unix" {
		return &net.UnixAddr{Name: addr, Net: network}
	}
	if ip, err := netip.ParseAddrPort(addr); err == nil {
		return net.TCPAddrFromAddrPort(ip)
	}
	return name{network, addr}
}

// open asks for the real connection and waits for the answer until ctx ends.
func open(ctx context.Context, conn net.Conn, w wanted) error {
	line, err := w.line()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	err = ask(conn, line)
	if !stop() { // the deadline is set or about to be: the connection is of no use
		return ctx.Err()
	}
	return err
}

func ask(conn net.Conn, line []byte) error {
	if _, err := conn.Write(line); err != nil {
		return err
	}
	reply, err := readLine(conn, maxAnswer)
	if err != nil {
		return err
	}
	return parseAnswer(reply)
}

func dialError(network, addr string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = os.NewSyscallError("connect", errno)
	}
	return &net.OpError{Op: "dial", Net: network, Addr: peer(network, addr), Err: err}
}

// name is an address that was asked for and not resolved here.
type name struct{ network, addr string }

func (n name) Network() string { return n.network }
func (n name) String() string  { return n.addr }
