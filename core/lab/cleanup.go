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
	if r.pool == nil {
		return nil // nothing was noted, and nothing made
	}
	defer r.pool.Close()
	made := []trace{{r.spec.Bus, r.chapter.Topic}}
	err := removeNoted(ctx, r.pool, r.schema, made, func(t trace) error {
		if r.bus == nil {
			return nil
		}
		return removeFrom(ctx, r.bus, t.Topic)
	})
	if r.bus != nil {
		err = errors.Join(err, r.bus.Close())
	}
	return err
}
