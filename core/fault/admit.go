package fault

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

const (
	openingTimeout = 5 * time.Second // for a client to say what it wants
	targetTimeout  = 5 * time.Second // for a server to accept
)

// handle serves one client from its opening line to the end.
func (p *Proxy) handle(ctx context.Context, client *net.TCPConn) {
	l := &link{proxy: p, client: client, gone: make(chan struct{}), since: time.Now()}
	defer context.AfterFunc(ctx, func() { l.end(true) })()
	defer l.end(false)
	if !l.greet() {
		return
	}
	err := p.admit(ctx, l)
	if _, lost := client.Write([]byte(answer(err))); lost == nil && err == nil {
		l.run()
	}
	p.forget(l)
}

// admit connects the link to its server, unless a rule is against it, and makes
// it known to the rules. The client's leaving ends it.
func (p *Proxy) admit(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, MaxTTL+targetTimeout)
	defer cancel()
	defer watch(l.client, cancel)()
	if err := p.await(ctx, l); err != nil {
		return err
	}
	server, err := (&net.Dialer{Timeout: targetTimeout}).DialContext(ctx, l.network, l.target)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refusal(l); err != nil || p.closed {
		server.Close()
		return errors.Join(err, syscall.ECONNREFUSED)
	}
	if !l.adopt(server.(halfCloser)) {
		return net.ErrClosed
	}
	p.links[l] = struct{}{}
	return nil
}

// await holds a dial while a Stall is on and reports a refusal.
func (p *Proxy) await(ctx context.Context, l *link) error {
	var counted *Injected
	for {
		rules := p.rules.Load()
		if err := p.refusal(l); err != nil {
			return err
		}
		f := rules.first(l.role, l.target, Stall)
		if f == nil {
			return nil
		}
		if f != counted {
			f.count(func(c *Counts) { c.Held++ })
			counted = f
		}
		select {
		case <-rules.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refusal is the error for a dial that a rule refuses, which counts it.
func (p *Proxy) refusal(l *link) error {
	f := p.rules.Load().first(l.role, l.target, Refuse, Outage)
	if f == nil {
		return nil
	}
	f.count(func(c *Counts) { c.Refused++ })
	return syscall.ECONNREFUSED
}

// watch calls gone when a client that has nothing to say yet hangs up. The
// returned function ends the watch.
func watch(client net.Conn, gone func()) (stop func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if n, _ := client.Read(make([]byte, 1)); n > 0 {
			client.Close() // it spoke too early: that byte would be missing later
		}
		gone()
	}()
	return func() {
		client.SetReadDeadline(time.Unix(1, 0))
		<-ended
		client.SetReadDeadline(time.Time{})
	}
}
