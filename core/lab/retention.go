package lab

import (
	"context"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
)

// purgeEvery is the longest pause between two purges. A short LiveConfig.Keep has
// shorter ones.
const purgeEvery = time.Minute

// purge removes rows that were sent longer than Keep ago, from every chapter with an
// outbox, again and again until ctx ends. Several processes may do so: each passes
// over what another has locked. What is pending or failed stays, and so do orders,
// emails and the listener's processed rows: a broker may deliver again whatever it
// still holds, however old, and only that record recognises it.
func (l *Live) purge(ctx context.Context) {
	every := min(purgeEvery, max(l.cfg.Keep/4, time.Second))
	for {
		for _, c := range l.cfg.Chapters {
			if c.Outbox && l.off[c.Number] == nil {
				l.purgeChapter(ctx, c)
			}
		}
		if !bus.Pause(ctx, every) {
			return
		}
	}
}

func (l *Live) purgeChapter(ctx context.Context, c Chapter) {
	n, err := outbox.Purge(ctx, l.pools[c.Number], l.cfg.Keep, 0)
	if err != nil && ctx.Err() == nil {
		l.cfg.Log.Warn("sent rows not purged", "chapter", c.Number, "error", err)
	}
	if n > 0 {
		l.cfg.Log.Info("sent rows purged", "chapter", c.Number, "rows", n)
	}
}
