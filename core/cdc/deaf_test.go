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

// The connection dies between a publish and its report. Who waits to see the report
// arrive does not wait for ever: the events come again on another connection.
func TestAReportThatDoesNotArriveIsNotWaitedForForEver(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	var dead atomic.Bool
	var dials atomic.Int64
	r.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil || dials.Add(1) > 1 {
			return c, err
		}
		return &deaf{Conn: c, dead: &dead, over: make(chan struct{})}, nil
	}
	steps := &checkpoint.Steps{}
	steps.Arm(checkpoint.Plan{At: checkpoint.AfterPublish, Do: func(context.Context) error {
		dead.Store(true)
		return nil
	}})
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
