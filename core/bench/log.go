package bench

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/audit"
	"outboxplayground/core/cdc"
)

// logLevel is the chapter whose relay reads the log.
const logLevel = 8

// Log is chapter 8's relay: it reads the inserts from the database's log. Its statements
// at rest are those of its pool; the connection that reads sends none.
func Log() Waker {
	return Waker{Name: "log", Level: logLevel, Unmarked: true,
		Prepare: func(ctx context.Context, l Lane) error {
			return cdc.Prepare(ctx, l.Pool.Config().ConnConfig, l.logged())
		},
		Run: func(ctx context.Context, l Lane) error {
			own := func() *pgx.ConnConfig { return l.Pool.Config().ConnConfig } // a copy
			return readLog(ctx, l, own)
		}}
}

func (l Lane) logged() cdc.Lane { return cdc.Lane{Schema: l.Schema, Bus: l.Name} }

// readLog relays until ctx ends, and then removes the slot.
func readLog(ctx context.Context, l Lane, connect func() *pgx.ConnConfig) error {
	r, err := cdc.NewRelay(l.Pool, l.Bus, l.logged(), connect, cdc.Config{Batch: l.Rows})
	if err == nil {
		err = r.Run(ctx)
	}
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	return errors.Join(err, cdc.Remove(cleaning, connect(), l.logged()))
}

// logDrain lets chapter 8's relay empty the same backlog, in a schema of its own. There
// is one reader, whatever the number of workers.
func (c Config) logDrain(ctx context.Context, d *Drained) (err error) {
	c.Workers = 1
	s, err := open(ctx, c, logLevel, 4, drained)
	defer func() {
		if closed := s.close(ctx); err == nil {
			err = closed
		}
	}()
	if err != nil {
		return err
	}
	l := Lane{Pool: s.pool, Bus: s.buses[0], Name: s.Bus, Schema: s.schema, Rows: s.Batch}
	w := Log()
	if err := w.Prepare(ctx, l); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	g, running := errgroup.WithContext(running)
	err = s.fill(ctx, drained, s.Rows)
	begun := time.Now()
	g.Go(func() error { return w.Run(running, l) })
	if err == nil {
		err = s.untilPassed(running)
	}
	d.LogPerSecond = rate(s.Rows, begun)
	stop()
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	return s.countLogged(ctx, d)
}

// untilPassed waits until the slot has delivered all that is in the table.
func (s *site) untilPassed(ctx context.Context) error {
	end, err := audit.LogEnd(ctx, s.pool)
	if err != nil {
		return err
	}
	for {
		exists, passed, err := audit.Passed(ctx, s.pool, s.Bus, end)
		switch {
		case err != nil || passed:
			return err
		case !exists:
			return errors.New("the slot is gone")
		}
		if err := sleepUntil(ctx, time.Now().Add(time.Millisecond)); err != nil {
			return err
		}
	}
}

// countLogged adds what this relay has lost or sent twice to the drain's.
func (s *site) countLogged(ctx context.Context, d *Drained) error {
	one := Drained{}
	if err := s.count(ctx, &one); err != nil {
		return err
	}
	d.Lost, d.Duplicated = d.Lost+one.Lost, d.Duplicated+one.Duplicated
	return nil
}
