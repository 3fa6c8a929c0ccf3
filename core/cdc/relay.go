package cdc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
)

// Config tunes a Relay. The zero value is usable.
type Config struct {
	// Policy decides what becomes of an event whose publish failed. Whatever it does not
	// park stops the lane until it is published: no later batch overtakes it. The
	// attempts are counted in memory. Default: outbox.Patient{}.
	Policy outbox.Policy
	// Batch is how many events are published at once, at most. Default: 100.
	Batch int
	// Probe is the wait of a lane whose broker or database is in trouble. Default: 250 ms
	// to 4 s, ± 20 %.
	Probe outbox.Backoff
	// PublishTimeout bounds the publish of a batch. Default: 5 s.
	PublishTimeout time.Duration
	// Term is how long the server waits for a reader that is silent before it gives the
	// slot to another one: wal_sender_timeout of this connection. A reader that waits
	// for its broker is not silent. A server that is silent for twice as long is given
	// up, and the slot read on another connection. Default: 30 s; at least 100 ms.
	Term time.Duration
	// Gate is asked in a transaction before a batch is taken in hand. Default: always.
	Gate func(ctx context.Context, tx pgx.Tx) (bool, error)
	// Steps are told where every event is. Default: nil, nobody.
	Steps *checkpoint.Steps
	// Log is told when trouble begins and ends. Default: discarded.
	Log *slog.Logger
}

const (
	defaultBatch   = 100
	defaultPublish = 5 * time.Second
	defaultTerm    = 30 * time.Second
	minTerm        = 100 * time.Millisecond // a server that is busy for less is alive
	// takeOver is how often a relay looks whether the slot of another one is free.
	takeOver = 250 * time.Millisecond
	// closedGate is how often a paused relay asks again.
	closedGate = 100 * time.Millisecond
	// statement bounds the relay's own statements.
	statement = 3 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Policy == nil {
		c.Policy = outbox.Patient{}
	}
	if c.Batch <= 0 {
		c.Batch = defaultBatch
	}
	if c.Probe == (outbox.Backoff{}) {
		c.Probe = outbox.Backoff{Base: 250 * time.Millisecond, Max: 4 * time.Second, Jitter: 0.2}
	}
	if c.PublishTimeout <= 0 {
		c.PublishTimeout = defaultPublish
	}
	if c.Term <= 0 {
		c.Term = defaultTerm
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Relay publishes what the log says of one lane, in the order of commits. Any number of
// relays may run for a lane, in any number of processes; the slot lets one read.
type Relay struct {
	db   DB
	bus  bus.Bus
	lane Lane
	conn func() *pgx.ConnConfig
	cfg  Config
}

// NewRelay makes the relay of a lane that Prepare has prepared. It starts nothing. conn
// returns how to open a connection; each call returns a copy. Database and bus stay the
// caller's, who closes them after Run.
func NewRelay(db DB, b bus.Bus, l Lane, conn func() *pgx.ConnConfig, cfg Config) (*Relay, error) {
	if db == nil || b == nil || conn == nil || l.Bus == "" || l.Schema == "" {
		return nil, errors.New("cdc: a relay needs a database, a bus, a lane and a way to connect")
	}
	if cfg.Term != 0 && cfg.Term < minTerm {
		return nil, fmt.Errorf("cdc: Term is %v, want at least %v", cfg.Term, minTerm)
	}
	return &Relay{db: db, bus: b, lane: l, conn: conn, cfg: cfg.withDefaults()}, nil
}

// objectInUse: the slot has its reader.
const objectInUse = "55006"

// Run works until ctx ends, and then finishes what it has in hand: what was published is
// confirmed, what was not comes again. Trouble with the broker, the database or the slot
// slows it down and never ends it: the error is nil. It never makes a slot: events
// that a lost one has not delivered are not in a new one.
func (r *Relay) Run(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; {
		read, err := r.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait := takeOver
		var said *pgconn.PgError
		if errors.As(err, &said) && said.Code == objectInUse {
			_ = r.cfg.Steps.Reach(ctx, checkpoint.Claimed, "") // nothing to be had; a plan names an event
		} else {
			if failures++; read {
				failures = 1
			}
			wait = r.cfg.Probe.Delay(failures)
			r.cfg.Log.WarnContext(ctx, "cdc: not reading", "lane", r.lane.Name(), "in_a_row", failures, "error", err)
		}
		bus.Pause(ctx, wait)
	}
	return nil
}

// session reads and publishes until ctx ends or something breaks. read tells whether
// the slot was had.
func (r *Relay) session(ctx context.Context) (read bool, err error) {
	s, err := open(ctx, r.conn(), r.lane, r.cfg.Term, 2*r.cfg.Batch)
	if err != nil {
		return false, err
	}
	w := &work{Relay: r, stream: s}
	err = w.run(ctx)
	s.close()
	if errors.Is(err, errStopped) && s.err != nil {
		err = s.err // why it stopped
	}
	return true, err
}

// errStopped ends the work of a session whose context or stream has ended.
var errStopped = fmt.Errorf("cdc: stopped: %w", context.Canceled)
