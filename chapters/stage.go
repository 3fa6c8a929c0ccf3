package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/lab"
	"outboxplayground/core/web"
	"outboxplayground/infra/servers"
)

// stage is all that serve has put together.
type stage struct {
	fleet   *fleet
	live    *lab.Live
	lab     *lab.Lab
	queue   *lab.Queue
	results *pgxpool.Pool // in the playground's schema
	sampler *web.Sampler
	where   directory
	memory  bool // whether the bus in memory can work here
}

// serve works until ctx ends, then stops in the order of the work: no new requests,
// then the lanes, which finish what they have in hand.
func (st *stage) serve(ctx context.Context, l net.Listener) error {
	if !st.fleet.joined() {
		if err := unpause(ctx, st.live); err != nil {
			return err
		}
	}
	ctx, cancel := st.fleet.whileOwned(ctx)
	defer cancel()
	var parts sync.WaitGroup
	parts.Go(func() { _ = st.live.Run(ctx) }) // its only end is that of ctx
	parts.Go(func() { st.attachBuses(ctx) })
	parts.Go(func() { st.queue.Run(ctx) })
	st.sampler = web.NewSampler(st.live)
	parts.Go(func() { st.sampler.Run(ctx) })
	stopping := make(chan struct{})
	server := st.server(l, stopping)
	failed := make(chan error, 1)
	parts.Go(func() { failed <- server.Serve(l) })

	var err error
	select {
	case <-ctx.Done():
		st.fleet.out.line("stopping: finishing what is in flight (at most %s)", brief(stopLimit))
		close(stopping)
		err = shutDown(ctx, server)
	case err = <-failed:
	}
	gone := ownerGone(ctx)
	cancel()
	parts.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, gone)
}

// requestLimit is how much of the stop's time belongs to requests under way.
const requestLimit = 3 * time.Second

// shutDown lets requests finish for a while, then breaks them off: an order that is
// being placed does not depend on its connection, and a race is not worth a wait.
func shutDown(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestLimit)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}

// attachBuses brings the buses, says what each is, and then removes what runs of
// dead processes have left on them.
func (st *stage) attachBuses(ctx context.Context) {
	out := st.fleet.out
	attach := func(b lab.BusInfo, open lab.OpenBus) {
		st.live.Attach(b, open)
		out.bus(b)
	}
	b := memoryInfo()
	if st.memory {
		attach(b, openBus(inMemory, ""))
	} else {
		b.Mode, b.Fix = servers.Off, "run serve with all three roles"
		b.Note = "the bus in memory lives in one process, and this one lacks a role"
		attach(b, nil)
	}
	attachAll(ctx, st.fleet, st.where.add, attach)
	if ctx.Err() != nil {
		return
	}
	out.line("  open %s, or place an order:", st.fleet.api)
	out.line("  curl -X POST '%s/demo/place-order?user_id=u1&items=A,B'", st.fleet.api)
	if err := st.lab.Sweep(ctx); err != nil && ctx.Err() == nil {
		out.warn("what dead runs left behind stays for the next start: %v", err)
	}
}

// unpause lets every relay work: a pause does not survive a restart.
func unpause(ctx context.Context, live *lab.Live) error {
	for _, c := range live.Chapters() {
		if !c.Outbox {
			continue
		}
		if err := live.Pause(ctx, c.Number, false); err != nil {
			return err
		}
	}
	return nil
}
