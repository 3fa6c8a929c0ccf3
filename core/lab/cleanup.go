package lab

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// cleanUpLimit bounds the clean-up of one run. A stop of the whole process must not
// wait so long for a broker that does not answer: childPatience and stopCleanUpLimit
// together are below its ten seconds.
const (
	cleanUpLimit     = 20 * time.Second
	stopCleanUpLimit = 3 * time.Second
)

// cleanUp ends the children and removes what the run made, in any state that the
// run may be in. What it cannot remove stays noted for the sweep at the next start.
func (r *run) cleanUp(ctx context.Context) {
	r.healNetwork()
	var ends sync.WaitGroup
	for _, p := range r.procs {
		ends.Go(p.end)
	}
	ends.Wait()
	r.readers.Wait()
	limit := cleanUpLimit
	if errors.Is(ctx.Err(), context.Canceled) {
		limit = stopCleanUpLimit
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := r.removeTraces(ctx)
	if r.proxy != nil && r.shared == nil {
		err = errors.Join(err, r.proxy.Close())
	}
	if err != nil {
		slog.Default().Warn("clean-up of a run; the next start sweeps", "run", r.id, "error", err)
	}
}

func (r *run) removeTraces(ctx context.Context) error {
	defer func() { _ = r.lock.release(ctx) }() // last: until then the run counts as living
	if r.bus != nil {
		err := removeFrom(ctx, r.bus, r.chapter.Topic)
		err = errors.Join(err, r.bus.Close())
		if err != nil {
			r.closePool()
			return err
		}
	}
	if r.pool == nil {
		return nil
	}
	defer r.closePool()
	if err := dropAll(ctx, r.pool, r.schema); err != nil {
		return err
	}
	_, err := r.pool.Exec(ctx, forgetTraces, r.schema) // last: what is still there stays noted
	return err
}

func (r *run) closePool() {
	if r.pool != nil {
		r.pool.Close()
		r.pool = nil
	}
}
