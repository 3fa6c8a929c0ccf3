package fault_test

import (
	"context"
	"io"
	"net"
	"testing"

	"outboxplayground/core/fault"
)

// The proxy's price, to be read as the ratio of proxied to direct:
//
//	go test -run '^$' -bench . ./core/fault
func BenchmarkRoundTrip(b *testing.B) {
	forDirectAndProxied(b, func(b *testing.B, c net.Conn) {
		message := make([]byte, 100)
		for b.Loop() {
			c.Write(message)
			if _, err := io.ReadFull(c, message); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkThroughput(b *testing.B) {
	forDirectAndProxied(b, func(b *testing.B, c net.Conn) {
		block := make([]byte, 256<<10)
		b.SetBytes(int64(len(block)))
		read := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, c)
			read <- err
		}()
		for b.Loop() {
			if _, err := c.Write(block); err != nil {
				b.Fatal(err)
			}
		}
		c.(interface{ CloseWrite() error }).CloseWrite()
		if err := <-read; err != nil { // all has come back
			b.Fatal(err)
		}
	})
}

func BenchmarkDial(b *testing.B) {
	addr := benchEcho(b)
	for name, dial := range dialers(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := dial(b.Context(), "tcp", addr)
				if err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func dialers(b *testing.B) map[string]dialFunc {
	b.Helper()
	p, err := fault.Listen()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return map[string]dialFunc{"direct": (&net.Dialer{}).DialContext, "proxied": p.Dialer("bench")}
}

func benchEcho(b *testing.B) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	return ln.Addr().String()
}

func forDirectAndProxied(b *testing.B, run func(*testing.B, net.Conn)) {
	addr := benchEcho(b)
	for name, dial := range dialers(b) {
		b.Run(name, func(b *testing.B) {
			c, err := dial(b.Context(), "tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			run(b, c)
		})
	}
}
