package redis

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dialer opens connections through the configured dial function.
//
// It never fails: after as many failures as the pool has places, go-redis stops
// dialling and repeats the last error until a probe of its own, once a second,
// succeeds, and it logs each failure. So a failed dial becomes a connection on
// which everything fails with the dial's error, which the pool throws away.
func (b *Bus) dialer() func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		c, err := b.cfg.Dial(ctx, network, addr)
		if err == nil && b.url.TLSConfig != nil {
			secure := tls.Client(c, b.url.TLSConfig)
			if err = secure.HandshakeContext(ctx); err != nil {
				c.Close()
			}
			c = secure
		}
		if err == nil {
			if err = greet(ctx, c); err != nil {
				c.Close()
			}
		}
		if err != nil {
			return stillborn{err}, nil
		}
		return c, nil
	}
}

// greet sees that somebody answers. A server that accepts and is silent (stopped,
// or behind a stalled proxy) would otherwise hold the log-in for several reply
// limits. Any answer will do, also a refusal.
func greet(ctx context.Context, c net.Conn) error {
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	for one := make([]byte, 1); one[0] != '\n'; { // no byte beyond the answer's line
		if _, err := c.Read(one); err != nil {
			return err
		}
	}
	return nil
}

// stillborn is the connection of a dial that failed.
type stillborn struct{ err error }

func (c stillborn) Read([]byte) (int, error)         { return 0, c.err }
func (c stillborn) Write([]byte) (int, error)        { return 0, c.err }
func (c stillborn) Close() error                     { return nil }
func (c stillborn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c stillborn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c stillborn) SetDeadline(time.Time) error      { return nil }
func (c stillborn) SetReadDeadline(time.Time) error  { return nil }
func (c stillborn) SetWriteDeadline(time.Time) error { return nil }
