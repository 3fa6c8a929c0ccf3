package kafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"

	"outboxplayground/core/bus"
)

// maxIdle is how many idle connections to one broker are kept.
const maxIdle = 8

// wire is a kafka.RoundTripper that sends a request to exactly the broker it is
// given. It retries nothing and caches nothing but connections. An error that
// wraps bus.ErrUnavailable means that no byte of the request was written; after
// any other error it may have arrived.
type wire struct {
	dial  bus.DialFunc
	conns connSet

	mu     sync.Mutex
	idle   map[string][]*wireConn
	closed bool
}

type wireConn struct {
	net.Conn
	proto *protocol.Conn
}

func newWire(dial bus.DialFunc) *wire {
	return &wire{dial: dial, idle: make(map[string][]*wireConn)}
}

// RoundTrip implements kafka.RoundTripper. Requests that kafka-go wants split are
// sent one after the other to the same broker.
func (w *wire) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (kafka.Response, error) {
	s, ok := req.(protocol.Splitter)
	if !ok {
		return w.one(ctx, addr.String(), req)
	}
	parts, merger, err := s.Split(protocol.Cluster{})
	if err != nil {
		return nil, err
	}
	results := make([]any, len(parts))
	for i, part := range parts {
		if results[i], err = w.one(ctx, addr.String(), part); err != nil {
			return nil, err
		}
	}
	return merger.Merge(parts, results)
}

func (w *wire) one(ctx context.Context, addr string, req kafka.Request) (kafka.Response, error) {
	c, err := w.take(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bus.ErrUnavailable, err)
	}
	res, reusable, err := c.exchange(ctx, req)
	if reusable {
		w.put(addr, c)
	} else {
		c.Close()
	}
	return res, err
}

// exchange sends one request and reads its answer, obeying ctx's deadline and its
// cancellation. The connection is reusable only if both were undisturbed.
func (c *wireConn) exchange(ctx context.Context, req kafka.Request) (res kafka.Response, reusable bool, err error) {
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return nil, false, err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	res, err = c.proto.RoundTrip(req)
	undisturbed := stop()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return res, undisturbed && err == nil, err
}

// take returns an idle connection that is still alive, or a new one.
func (w *wire) take(ctx context.Context, addr string) (*wireConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for c := w.pop(addr); c != nil; c = w.pop(addr) {
		if c.Conn.(*setConn).alive() {
			return c, nil
		}
		c.Close()
	}
	raw, err := w.conns.dial(ctx, w.dial, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &wireConn{Conn: raw, proto: protocol.NewConn(raw, "outbox")}
	if err := c.greet(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// greet asks the broker which versions of each request it speaks.
func (c *wireConn) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	res, _, err := c.exchange(ctx, new(apiversions.Request))
	if err != nil {
		return err
	}
	known := res.(*apiversions.Response)
	if known.ErrorCode != 0 {
		return kafka.Error(known.ErrorCode)
	}
	versions := make(map[protocol.ApiKey]int16, len(known.ApiKeys))
	for _, k := range known.ApiKeys {
		key := protocol.ApiKey(k.ApiKey)
		versions[key] = key.SelectVersion(k.MinVersion, k.MaxVersion)
	}
	c.proto.SetVersions(versions)
	return nil
}

func (w *wire) pop(addr string) *wireConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := w.idle[addr]
	if len(idle) == 0 {
		return nil
	}
	c := idle[len(idle)-1]
	w.idle[addr] = idle[:len(idle)-1]
	return c
}

func (w *wire) put(addr string, c *wireConn) {
	w.mu.Lock()
	keep := !w.closed && len(w.idle[addr]) < maxIdle
	if keep {
		w.idle[addr] = append(w.idle[addr], c)
	}
	w.mu.Unlock()
	if !keep {
		c.Close()
	}
}

// close cuts every connection, idle or in use.
func (w *wire) close() {
	w.mu.Lock()
	w.closed = true
	w.idle = make(map[string][]*wireConn)
	w.mu.Unlock()
	w.conns.close()
}
