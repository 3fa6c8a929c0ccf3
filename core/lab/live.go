package lab

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
	"outboxplayground/core/pg"
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
	// Observe, if set, is told each step that an event reaches in the relay or the
	// consumer of this process. It is called from several goroutines and holds them up.
	Observe func(chapter int, busName string, at checkpoint.Name, eventID string)
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
