package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// side is one chapter in a race: a schema, a bus and the roles, all of its own.
type side struct {
	chapter Chapter
	schema  string
	busName string
	pool    *pgxpool.Pool
	bus     bus.Bus
	stop    context.CancelFunc
	roles   sync.WaitGroup
	log     *slog.Logger
	over    bool // nothing can come any more
}

// enter makes a side and starts its relay and consumer.
func (r *race) enter(ctx context.Context, number int) error {
	c, ok := r.live.Chapter(number)
	if !ok {
		return fmt.Errorf("there is no chapter %d", number)
	}
	id := strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	s := &side{chapter: c, schema: fmt.Sprintf("race_%s_%02d", id, number), busName: r.bus, log: r.live.cfg.Log, stop: func() {}}
	r.sides = append(r.sides, s)
	url := r.live.cfg.DatabaseURL
	if err := pg.MigrateChapter(ctx, url, s.schema, number); err != nil {
		return err
	}
	var err error
	if s.pool, err = pg.Open(url, s.schema, pg.Options{MaxConns: racers + 4}); err != nil {
		return err
	}
	if s.bus, err = r.open(ctx, BusOptions{Schema: s.schema, Dial: r.proxy.Dialer(fmt.Sprintf("race/ch%02d", number))}); err != nil {
		return err
	}
	if t, ok := s.bus.(bus.Topology); ok {
		if err := t.Prepare(ctx, c.Topic, shop.Group); err != nil {
			return err
		}
	}
	s.start(ctx, r.live.cfg)
	return nil
}

// start runs the roles until stop is called.
func (s *side) start(ctx context.Context, cfg LiveConfig) {
	ctx, s.stop = context.WithCancel(ctx)
	deps := Deps{DB: s.pool, Bus: s.bus, BusName: s.busName, Log: cfg.Log}
	v, _ := s.chapter.Variant("")
	if v.Relay != nil {
		s.roles.Go(func() { _ = v.Relay(deps).Run(ctx) })
	}
	handler := v.Consumer(deps)
	s.roles.Go(func() { _ = s.bus.Subscribe(ctx, s.chapter.Topic, shop.Group, handler) })
}

// close ends every side and removes what it has on the broker and in Postgres.
func (r *race) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, s := range r.sides {
		if err := s.close(ctx); err != nil {
			r.live.cfg.Log.Warn("race: clean-up", "schema", s.schema, "error", err)
		}
	}
}

func (s *side) close(ctx context.Context) error {
	s.stop()
	s.roles.Wait()
	var errs []error
	if t, ok := s.bus.(bus.Topology); ok {
		errs = append(errs, t.Remove(ctx, s.chapter.Topic, shop.Group))
	}
	if s.bus != nil {
		errs = append(errs, s.bus.Close())
	}
	if s.pool != nil {
		_, err := s.pool.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{s.schema}.Sanitize()+" CASCADE")
		s.pool.Close()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// place places n orders, a few at a time, and reports each one.
func (s *side) place(ctx context.Context, n int, placed func()) error {
	v, _ := s.chapter.Variant("")
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(racers)
	for range n {
		g.Go(func() error {
			order := shop.Order{EventID: uuid.NewString(), UserID: "racer", Items: []string{"A"}, Bus: s.busName}
			p := v.Producer(Deps{DB: s.pool, Bus: s.bus, BusName: s.busName, Log: s.log})
			defer placed()
			return p.PlaceOrder(ctx, order)
		})
	}
	return g.Wait()
}

const (
	failedOnce   = `SELECT EXISTS (SELECT FROM outbox WHERE attempts > 0)`
	unsentCount  = `SELECT count(*) FROM outbox WHERE status = 'pending'`
	emailsSoFar  = `SELECT count(*) FROM emails`
	racePoll     = 20 * time.Millisecond
	quietForLong = 500 * time.Millisecond
)

func (s *side) hasFailedOnce(ctx context.Context) (failed bool, err error) {
	err = s.pool.QueryRow(ctx, failedOnce).Scan(&failed)
	return failed, err
}

// settle waits until nothing can come any more: no row is pending, the bus holds
// nothing for the listener, and that has been so, without a new email, for a while.
func (s *side) settle(ctx context.Context) error {
	s.over = false
	emails, since := -1, time.Now()
	err := s.until(ctx, nil, func() (bool, error) {
		now, quiet, err := s.look(ctx)
		if err != nil || !quiet || now != emails {
			emails, since = now, time.Now()
			return false, err
		}
		return time.Since(since) > quietForLong, nil
	})
	s.over = err == nil
	return err
}

// look counts the emails and tells whether relay and bus have nothing left. A bus
// that cannot be asked now is not quiet.
func (s *side) look(ctx context.Context) (emails int, quiet bool, err error) {
	unsent := 0
	if s.chapter.Outbox {
		if err := s.pool.QueryRow(ctx, unsentCount).Scan(&unsent); err != nil {
			return 0, false, err
		}
	}
	held := int64(0)
	if b, ok := s.bus.(bus.Backlogger); ok {
		if held, err = b.Backlog(ctx, s.chapter.Topic, shop.Group); err != nil {
			held = 1
		}
	}
	err = s.pool.QueryRow(ctx, emailsSoFar).Scan(&emails)
	return emails, unsent == 0 && held == 0, err
}

// until polls until done says so, enough is closed, or ctx ends.
func (s *side) until(ctx context.Context, enough <-chan struct{}, done func() (bool, error)) error {
	tick := time.NewTicker(racePoll)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-enough:
			return nil
		case <-tick.C:
		}
	}
}

func (s *side) source() audit.Source {
	return audit.Source{Chapter: s.chapter.Number, DB: s.pool, Outbox: s.chapter.Outbox}
}

// lowWater counts two sides and tells the lower count.
type lowWater struct {
	mu     sync.Mutex
	counts [2]int
	tell   func(low int) // never two calls at a time; may be nil
}

func (w *lowWater) add(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[i]++
	if w.tell != nil {
		w.tell(min(w.counts[0], w.counts[1]))
	}
}
