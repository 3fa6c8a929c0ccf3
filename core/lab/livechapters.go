package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/pg"
)

// poolSize serves the relay and consumer of five buses and the requests beside them.
const poolSize = 12

func (l *Live) openChapter(ctx context.Context, c Chapter) error {
	if err := pg.MigrateChapter(ctx, l.cfg.DatabaseURL, c.Schema(), c.Number); err != nil {
		return err
	}
	pool, err := pg.Open(l.cfg.DatabaseURL, c.Schema(), pg.Options{MaxConns: poolSize})
	if err != nil {
		return err
	}
	l.pools[c.Number] = pool
	if l.conns[c.Number], err = pg.ConnConfig(l.cfg.DatabaseURL, c.Schema(), pg.Options{}); err != nil {
		return err
	}
	if err := l.prepareVariant(ctx, c); err != nil {
		l.off[c.Number] = err
		l.cfg.Log.Warn("a chapter is off", "chapter", c.Number, "error", err)
	}
	return nil
}

// prepareVariant makes what the lanes of a chapter need, of every bus there could be:
// orders are taken for a bus that is still starting. Its error is an ErrChapterOff.
func (l *Live) prepareVariant(ctx context.Context, c Chapter) error {
	v, _ := c.Variant("")
	if v.Prepare == nil {
		return nil
	}
	for _, b := range l.cfg.Buses {
		err := v.Prepare(ctx, l.deps(c, b.Name, nil))
		switch {
		case errors.Is(err, ErrChapterOff):
			return err
		case err != nil:
			return fmt.Errorf("%w: it could not be prepared on %s: %w", ErrChapterOff, b.Name, err)
		}
	}
	return nil
}

// ChapterOff says why a chapter is off, nil if it is not.
func (l *Live) ChapterOff(number int) error { return l.off[number] }

// deps is what the parts of an interactive chapter are made from.
func (l *Live) deps(c Chapter, busName string, b bus.Bus) Deps {
	return Deps{DB: l.pools[c.Number], Bus: b, BusName: busName,
		Schema: c.Schema(), Shared: true, ConnConfig: l.conns[c.Number].Copy, Gate: pg.Gate(c.Schema()),
		Log: l.cfg.Log.With("chapter", c.Number, "bus", busName)}
}

// Chapters returns the table of contents, in reading order.
func (l *Live) Chapters() []Chapter { return l.cfg.Chapters }

// Chapter returns the chapter with that number.
func (l *Live) Chapter(number int) (Chapter, bool) {
	return chapterNumbered(l.cfg.Chapters, number)
}

// DB returns the pool of a chapter's schema, nil for an unknown chapter.
func (l *Live) DB(chapter int) *pgxpool.Pool { return l.pools[chapter] }

// Source is where the audit of a chapter reads.
func (l *Live) Source(c Chapter) audit.Source {
	s := c.Source(l.pools[c.Number])
	s.Elsewhere = !l.cfg.Consumer
	return s
}

// Pause stops or resumes the relay of a chapter, on every machine.
func (l *Live) Pause(ctx context.Context, chapter int, paused bool) error {
	return pg.Pause(ctx, l.pools[chapter], pg.Schema(chapter), paused)
}
