package lab

import (
	"context"
	"errors"
	"sync"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/shop"
)

// prepareTimeout bounds one attempt to reach a broker that is starting.
const prepareTimeout = 5 * time.Second

// retryPause is how long a lane waits before it tries again what failed.
const retryPause = 500 * time.Millisecond

// runBus serves every chapter on one bus. The relay's lane begins after the
// first connection, so that a broker which is still starting costs no attempt.
func (l *Live) runBus(ctx context.Context, a attachment) {
	var chapters sync.WaitGroup
	defer chapters.Wait()
	for _, c := range l.cfg.Chapters {
		if l.off[c.Number] != nil {
			continue
		}
		b, err := l.reach(ctx, a, c)
		if err != nil {
			return // ctx has ended
		}
		chapters.Go(func() { l.runLane(ctx, c, a.info.Name, b) })
	}
	a.info.State = Ready
	l.setInfo(a.info)
	l.cfg.Log.Info("bus ready", "bus", a.info.Name, "mode", a.info.Mode)
}

// reach opens the bus for a chapter and prepares its topic, however long that
// takes. Its only error is that ctx has ended.
func (l *Live) reach(ctx context.Context, a attachment, c Chapter) (bus.Bus, error) {
	for {
		b, err := l.prepare(ctx, a, c)
		if err == nil {
			l.mu.Lock()
			l.buses[laneKey{c.Number, a.info.Name}] = b
			l.mu.Unlock()
			return b, nil
		}
		info := a.info
		info.Note = "starting: not reached yet: " + err.Error()
		l.setInfo(info)
		if !bus.Pause(ctx, retryPause) {
			return nil, ctx.Err()
		}
	}
}

func (l *Live) prepare(ctx context.Context, a attachment, c Chapter) (bus.Bus, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	b, err := l.openFor(ctx, a, c)
	if err != nil {
		return nil, err
	}
	if t, ok := b.(bus.Topology); ok {
		if err := t.Prepare(ctx, c.Topic, shop.Group); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// runLane runs the roles of this process for one chapter on one bus.
func (l *Live) runLane(ctx context.Context, c Chapter, name string, b bus.Bus) {
	v, _ := c.Variant("")
	deps := l.deps(c, name, b)
	if l.cfg.Observe != nil {
		deps.Steps = &checkpoint.Steps{Observe: func(at checkpoint.Name, id string) { l.cfg.Observe(c.Number, name, at, id) }}
	}
	var roles sync.WaitGroup
	defer roles.Wait()
	if l.cfg.Relay && v.Relay != nil {
		roles.Go(func() { l.keep(ctx, deps, "relay", v.Relay(deps).Run) })
	}
	for _, other := range c.Variants {
		if l.cfg.Relay && other.Recovers != nil {
			roles.Go(func() { l.keep(ctx, deps, "recovery", other.Recovers(deps).Run) })
		}
	}
	if l.cfg.Consumer {
		handler := v.Consumer(deps)
		if v.Replays != nil {
			roles.Go(func() { l.keep(ctx, deps, "replays", v.Replays(deps).Run) })
		}
		roles.Go(func() {
			l.keep(ctx, deps, "consumer", func(ctx context.Context) error {
				return b.Subscribe(ctx, c.Topic, shop.Group, handler)
			})
		})
	}
}

// keep runs a role until ctx ends, starting it again when it gives up.
func (l *Live) keep(ctx context.Context, d Deps, role string, run func(context.Context) error) {
	for {
		err := run(ctx)
		if ctx.Err() != nil {
			return
		}
		d.Log.Error("role stopped, starting it again", "role", role, "error", err)
		if !bus.Pause(ctx, retryPause) {
			return
		}
	}
}
