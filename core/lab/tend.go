package lab

import (
	"context"
	"time"

	"outboxplayground/core/bus"
)

// tendEvery is soon enough for what grows with the traffic of a playground.
const tendEvery = 10 * time.Second

// tend looks after the lanes that have no relay here, until ctx ends.
func (l *Live) tend(ctx context.Context) {
	for bus.Pause(ctx, tendEvery) {
		for _, c := range l.cfg.Chapters {
			v, _ := c.Variant("")
			if v.Tend == nil || l.off[c.Number] != nil {
				continue
			}
			for _, b := range l.cfg.Buses {
				if l.reached(c.Number, b.Name) {
					continue
				}
				if err := v.Tend(ctx, l.deps(c, b.Name, nil)); err != nil && ctx.Err() == nil {
					l.cfg.Log.Warn("a lane without a relay", "chapter", c.Number, "bus", b.Name, "error", err)
				}
			}
		}
	}
}

// reached tells whether the lane of a bus has begun in this process.
func (l *Live) reached(chapter int, busName string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buses[laneKey{chapter, busName}] != nil
}
