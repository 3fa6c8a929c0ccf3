package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/infra/servers"
)

// joinPoll is how often a joining process looks whether a server has come up.
const joinPoll = 200 * time.Millisecond

func (f *fleet) join(ctx context.Context, name string) servers.Info {
	gone := servers.Info{Name: name, Mode: servers.Off, State: "off",
		Note: "not named by " + servers.Variable(name) + ", and no playground is running here", Fix: errNobody.Error()}
	for {
		e, err := servers.ReadEndpoints(f.home)
		if err != nil && !errors.Is(err, servers.ErrNoOwner) {
			gone.Note = err.Error()
			return gone
		}
		if err == nil {
			if info, ok := e.Lookup(name); ok && info.State != "starting" {
				return info
			}
		}
		if err != nil && f.nobodyFor(ctx) {
			return gone
		}
		if !bus.Pause(ctx, joinPoll) {
			return gone
		}
	}
}

// nobodyFor tells whether the home stays without an owner. A new owner needs a
// moment between its lock and its first endpoints.
func (f *fleet) nobodyFor(ctx context.Context) bool {
	for range 10 {
		if _, err := servers.ReadEndpoints(f.home); err == nil {
			return false
		}
		if !bus.Pause(ctx, joinPoll) {
			return true
		}
	}
	return true
}

// errOwnerGone ends a process whose servers belonged to another one.
var errOwnerGone = errors.New("the playground whose servers this process uses has ended:" +
	" start it, then this command again")

// whileOwned returns a context that ends, with errOwnerGone as its cause, when the
// servers of this process have lost the process that runs them. Its servers come
// back on other ports, so waiting for them would be in vain.
func (f *fleet) whileOwned(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	owner, err := servers.ReadEndpoints(f.home)
	if f.release != nil || os.Getenv(servers.Variable("postgres")) != "" || err != nil {
		return ctx, func() { cancel(nil) }
	}
	var watch sync.WaitGroup
	watch.Go(func() { f.watch(ctx, owner.PID, cancel) })
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// watch cancels when the owner is another one than at the start, or none.
func (f *fleet) watch(ctx context.Context, pid int, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now, err := servers.ReadEndpoints(f.home); err != nil || now.PID != pid {
			cancel(errOwnerGone)
			return
		}
	}
}

// ownerGone is errOwnerGone where that is why ctx has ended.
func ownerGone(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errOwnerGone) {
		return errOwnerGone
	}
	return nil
}
