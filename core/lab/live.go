package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// LiveConfig says what a Live runs.
type LiveConfig struct {
	Chapters    []Chapter
	DatabaseURL string
	// Buses are all the buses there could be, in the order in which readers see
	// them, each Starting or Off at first.
	Buses []BusInfo
	// Relay and Consumer say which roles run in this process.
	Relay, Consumer bool
	// Keep is how long rows that were sent stay in the outbox, where the relay runs in
	// this process. 0 is for ever.
	Keep time.Duration
	// Log is told about lanes that start and errors they meet. Default: discarded.
	Log *slog.Logger
}

// Live runs the interactive chapters: it places orders, and runs the relay and
// the consumer of every chapter on every bus as soon as that bus can be reached.
// Its methods are safe for concurrent use.
type Live struct {
	cfg      LiveConfig
	pools    map[int]*pgxpool.Pool   // by chapter number, fixed after NewLive
	conns    map[int]*pgx.ConnConfig // the same
	off      map[int]error           // the same: why a chapter is off
	attached chan attachment

	mu    sync.Mutex
	infos []BusInfo
	buses map[laneKey]bus.Bus

	proxy   *fault.Proxy // between the interactive chapters and every broker
	chaosMu sync.Mutex
	broken  map[string]*fault.Injected // by bus name
}

type laneKey struct {
	chapter int
	bus     string
}

type attachment struct {
	info BusInfo
	open OpenBus
}

// NewLive migrates the schemas of the chapters and opens their pools.
func NewLive(ctx context.Context, cfg LiveConfig) (*Live, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Live{
		cfg:      cfg,
		pools:    map[int]*pgxpool.Pool{},
		conns:    map[int]*pgx.ConnConfig{},
		off:      map[int]error{},
		attached: make(chan attachment, len(cfg.Buses)+1),
		infos:    append([]BusInfo(nil), cfg.Buses...),
		buses:    map[laneKey]bus.Bus{},
		broken:   map[string]*fault.Injected{},
	}
	var err error
	if l.proxy, err = fault.Listen(); err != nil {
		return nil, err
	}
	if err := pg.MigratePlayground(ctx, cfg.DatabaseURL); err != nil {
		l.Close()
		return nil, err
	}
	for _, c := range cfg.Chapters {
		if err := l.openChapter(ctx, c); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

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
		Schema: c.Schema(), ConnConfig: l.conns[c.Number].Copy, Gate: pg.Gate(c.Schema()),
		Log: l.cfg.Log.With("chapter", c.Number, "bus", busName)}
}

// Attach tells what became of a bus: how to open it, or (open nil) that it is off
// and how to turn it on. Call it once for each bus; Run does the rest.
func (l *Live) Attach(info BusInfo, open OpenBus) {
	if open == nil {
		info.State = Off
		l.setInfo(info)
		return
	}
	info.State = Starting
	l.setInfo(info)
	l.attached <- attachment{info, open}
}

// Run works until ctx ends and every lane has finished what it had in flight.
func (l *Live) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	defer lanes.Wait()
	lanes.Go(func() { l.tend(ctx) })
	if l.cfg.Relay && l.cfg.Keep > 0 {
		lanes.Go(func() { l.purge(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-l.attached:
			lanes.Go(func() { l.runBus(ctx, a) })
		}
	}
}

// Close ends the buses and the pools. Call it after Run has returned.
func (l *Live) Close() {
	l.mu.Lock()
	buses := l.buses
	l.buses = map[laneKey]bus.Bus{}
	l.mu.Unlock()
	for _, b := range buses {
		_ = b.Close() // the process is ending, nobody is left to be told
	}
	_ = l.proxy.Close()
	for _, p := range l.pools {
		p.Close()
	}
}

// Chapters returns the table of contents, in reading order.
func (l *Live) Chapters() []Chapter { return l.cfg.Chapters }

// Chapter returns the chapter with that number.
func (l *Live) Chapter(number int) (Chapter, bool) {
	for _, c := range l.cfg.Chapters {
		if c.Number == number {
			return c, true
		}
	}
	return Chapter{}, false
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

// Place places an order the way of a chapter's variant ("" is the default one)
// on the bus that the order names, and returns how long its transaction took.
// ErrUnknownBus, ErrBusOff and ErrBusStarting come before the transaction.
func (l *Live) Place(ctx context.Context, chapter int, variant string, o shop.Order,
	steps *checkpoint.Steps) (time.Duration, error) {
	c, ok := l.Chapter(chapter)
	if !ok {
		return 0, fmt.Errorf("there is no chapter %d", chapter)
	}
	if err := l.off[chapter]; err != nil {
		return 0, err
	}
	v, ok := c.Variant(variant)
	if !ok {
		return 0, fmt.Errorf("chapter %d has no variant %q", chapter, variant)
	}
	b, err := l.busFor(c, o.Bus)
	if err != nil {
		return 0, err
	}
	timed := &pg.Timed{DB: l.pools[chapter]}
	deps := l.deps(c, o.Bus, b)
	deps.DB, deps.Steps = timed, steps
	producer := v.Producer(deps)
	err = producer.PlaceOrder(ctx, o)
	return timed.Spent(), err
}

// busFor returns the bus that an order of c needs, nil where an outbox makes it
// unnecessary: from chapter 3 on an order can be taken before its bus is there.
func (l *Live) busFor(c Chapter, name string) (bus.Bus, error) {
	info, err := l.Bus(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	b := l.buses[laneKey{c.Number, name}]
	l.mu.Unlock()
	switch {
	case info.State == Off:
		return nil, fmt.Errorf("%w: %s: %s", ErrBusOff, name, info.Fix)
	case b == nil && !c.Outbox:
		return nil, fmt.Errorf("%w: %s: %s", ErrBusStarting, name, info.Note)
	}
	return b, nil
}

// Backlog says how many messages of a chapter the bus still holds for the
// listener. An error means that nobody can tell now.
func (l *Live) Backlog(ctx context.Context, chapter int, busName string) (int64, error) {
	c, _ := l.Chapter(chapter)
	l.mu.Lock()
	b := l.buses[laneKey{chapter, busName}]
	l.mu.Unlock()
	counter, ok := b.(bus.Backlogger)
	if !ok {
		return 0, fmt.Errorf("%s cannot tell its backlog yet", busName)
	}
	return counter.Backlog(ctx, c.Topic, shop.Group)
}
