package cdc_test

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"outboxplayground/core/cdc"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop/shoptest"
)

// deaf is a connection that, from some moment on, is dead without an error: nothing comes,
// and what is written goes nowhere.
type deaf struct {
	net.Conn
	dead *atomic.Bool
	over chan struct{}
	once sync.Once
}

func (d *deaf) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if !d.dead.Load() {
		return n, err
	}
	<-d.over
	return 0, os.ErrDeadlineExceeded
}

func (d *deaf) Write(p []byte) (int, error) {
	if d.dead.Load() {
		return len(p), nil
	}
	return d.Conn.Write(p)
}

func (d *deaf) SetDeadline(t time.Time) error {
	if !t.IsZero() {
		d.once.Do(func() { close(d.over) })
	}
	return d.Conn.SetDeadline(t)
}

// deafRig is a rig whose first connection to the log is deaf when dead says so. dials
// counts the connections.
func deafRig(t *testing.T) (r *rig, dead *atomic.Bool, dials *atomic.Int64) {
	t.Helper()
	r, dead, dials = newRig(t, "nats"), &atomic.Bool{}, &atomic.Int64{}
	r.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil || dials.Add(1) > 1 {
			return c, err
		}
		return &deaf{Conn: c, dead: dead, over: make(chan struct{})}, nil
	}
	return r, dead, dials
}

// when makes it so at the first time that an event reaches a step.
func when(at checkpoint.Name, dead *atomic.Bool) *checkpoint.Steps {
	steps := &checkpoint.Steps{}
	steps.Arm(checkpoint.Plan{At: at, Do: func(context.Context) error {
		dead.Store(true)
		return nil
	}})
	return steps
}

// The connection dies while there is nothing to do.
func TestADeadConnectionAtRestIsNoticed(t *testing.T) {
	r, dead, dials := deafRig(t)
	b := &shoptest.Bus{}
	start(t, r.relay(t, b, "nats", cdc.Config{Term: 500 * time.Millisecond}))
	ids := r.write(t, "nats", 1)
	arrives(t, b, ids)
	r.confirmed(t, "nats")
	dead.Store(true)
	arrives(t, b, append(ids, r.write(t, "nats", 1)...))
	if n := dials.Load(); n < 2 {
		t.Errorf("%d connections: the first one was not given up", n)
	}
}

// The connection dies between a publish and its report. Who waits to see the report
// arrive does not wait for ever: the events come again on another connection.
func TestAReportThatDoesNotArriveIsNotWaitedForForEver(t *testing.T) {
	r, dead, dials := deafRig(t)
	steps := when(checkpoint.AfterPublish, dead)
	b := &shoptest.Bus{}
	start(t, r.relay(t, b, "nats", cdc.Config{Term: 500 * time.Millisecond, Steps: steps}))
	ids := r.write(t, "nats", 1)
	twice := append(ids, ids...) // the server does not know that it was published
	arrives(t, b, twice)
	arrives(t, b, append(twice, r.write(t, "nats", 3)...))
	r.confirmed(t, "nats")
	if n := dials.Load(); n < 2 {
		t.Errorf("%d connections: the first one was not given up", n)
	}
}

// The same while so much has come already that nobody reads the connection.
func TestADeadConnectionBehindABacklogIsNoticed(t *testing.T) {
	r, dead, dials := deafRig(t)
	steps := when(checkpoint.BeforeMark, dead)
	b := &shoptest.Bus{}
	ids := r.write(t, "nats", 20)
	start(t, r.relay(t, b, "nats", cdc.Config{Term: 500 * time.Millisecond, Batch: 1, Steps: steps}))
	await(t, func() bool { return dials.Load() > 1 && len(b.Accepted()) > len(ids) })
	r.confirmed(t, "nats")
	if n := len(b.Accepted()); n != len(ids)+1 {
		t.Errorf("%d published, want the %d and the first one again", n, len(ids))
	}
}

// trickle is a connection over which little comes at a time.
type trickle struct{ net.Conn }

func (c trickle) Read(p []byte) (int, error) {
	time.Sleep(2 * time.Millisecond) // the time is what is tried here
	return c.Conn.Read(p[:min(len(p), 1000)])
}

// An event that takes longer than the term to come over a slow line is no silence.
func TestALargeEventOverASlowLine(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	var dials atomic.Int64
	r.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return trickle{c}, err
	}
	const term = 200 * time.Millisecond
	r.exec(t, `INSERT INTO outbox (event_id, bus, topic, key, payload)
		VALUES (gen_random_uuid(), 'nats', 'safe', 'k', jsonb_build_object('a', repeat('abcd', 100000)))`)
	start(t, r.relay(t, b, "nats", cdc.Config{Term: term}))
	await(t, func() bool { return len(b.Accepted()) == 1 })
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// The server answers while a transaction is on its way, too. That says nothing of the
// transaction: no event of it is marked before the last one is published.
func TestNoMarkWithinATransaction(t *testing.T) {
	const n = 5000
	r, b := newRig(t, "nats"), &hang{entered: make(chan struct{}), release: make(chan struct{})}
	var early atomic.Int64
	steps := &checkpoint.Steps{Observe: func(at checkpoint.Name, _ string) {
		if at == checkpoint.AfterMark && len(b.Accepted()) < n {
			early.Add(1)
		}
	}}
	r.exec(t, `INSERT INTO outbox (event_id, bus, topic, key, headers, payload)
		SELECT gen_random_uuid(), 'nats', 'safe', 'k', jsonb_build_object('a', repeat(md5(i::text), 150)), '{}'
		FROM generate_series(1, $1) i`, n)
	start(t, r.relay(t, b, "nats", cdc.Config{Term: 200 * time.Millisecond, Steps: steps, PublishTimeout: patience}))
	<-b.entered
	time.Sleep(time.Second) // for the server to be asked, and to answer, behind what it has sent
	close(b.release)
	await(t, func() bool { return len(b.Accepted()) == n })
	r.confirmed(t, "nats")
	if early.Load() != 0 {
		t.Errorf("%d events were marked before their transaction was published", early.Load())
	}
}
