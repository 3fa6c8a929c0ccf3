package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
)

// WakerConfig says where a Waker listens.
type WakerConfig struct {
	// Connect opens the connection that listens, which Run closes. LISTEN belongs to
	// one session, so it must lead to the server itself: a pooler that hands out
	// sessions by the transaction takes the LISTEN and passes nothing on.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// DB is what the relays work on. Through it the waker calls itself, to find out
	// whether it hears.
	DB DB
	// Channel is what the trigger of migration 00701 notifies: see Channel. Together with
	// Name at most 56 bytes, of printable ASCII.
	Channel string
	// Name tells this waker from others of the channel, in pg_stat_activity and in
	// Listening. A relay's bus would do.
	Name string
	// Check is how long it may be silent before the waker calls itself. Default: 30 s.
	Check time.Duration
	// Retry is the wait before the next connection. Default: 250 ms to 4 s, ± 20 %.
	Retry Backoff
	// Log is told when it hears and when it does not. Default: discarded.
	Log *slog.Logger
}

// Channel is where migration 00701's trigger notifies for the outbox of a schema.
func Channel(schema string) string { return schema + ".outbox" }

// Waker wakes relays when rows are written, by LISTEN on a connection of its own. It
// makes things fast and nothing safe: a notification that is missed is not repeated.
// So relays go on polling; see Config.Waker for how. Any number of relays may share
// one. Safe for concurrent use.
type Waker struct {
	cfg   WakerConfig
	hears atomic.Bool
	tried chan struct{} // closed when the first LISTEN has worked or failed
	first sync.Once

	mu     sync.Mutex
	relays []*Relay
}

// Waits that need no tuning.
const (
	connectLimit = 5 * time.Second
	hearLimit    = 2 * time.Second  // of the waker's own call
	deafPause    = 30 * time.Second // a pooler does not go away by itself
	defaultCheck = 30 * time.Second
)

// longestName is what PostgreSQL keeps of a channel or an application_name, in bytes.
const longestName = 63

func unprintable(r rune) bool { return r < ' ' || r > '~' }

// NewWaker makes a waker. It starts nothing.
func NewWaker(c WakerConfig) (*Waker, error) {
	if c.Connect == nil || c.DB == nil || c.Channel == "" {
		return nil, errors.New("outbox: a waker needs a connection, a database and a channel")
	}
	if c.Check < 0 {
		return nil, errors.New("outbox: a negative duration")
	}
	if err := c.Retry.check("Retry"); err != nil {
		return nil, err
	}
	if said := signature(c.Channel) + c.Name; len(said) > longestName || strings.ContainsFunc(said, unprintable) {
		return nil, fmt.Errorf("outbox: %q is longer than %d bytes or not of printable ASCII; it is how a waker signs in pg_stat_activity",
			said, longestName)
	}
	if c.Check == 0 {
		c.Check = defaultCheck
	}
	if c.Retry == (Backoff{}) {
		c.Retry = Backoff{Base: 250 * time.Millisecond, Max: 4 * time.Second, Jitter: 0.2}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Waker{cfg: c, tried: make(chan struct{})}, nil
}

// Hears tells whether what is notified arrives here, as far as the waker knows: it
// has heard its own call, and the connection has not broken since.
func (w *Waker) Hears() bool { return w.hears.Load() }

// Run listens until ctx ends, connecting again whenever that is necessary. Its error
// is nil: without a connection the relays poll.
func (w *Waker) Run(ctx context.Context) error {
	for failures := 1; ctx.Err() == nil; failures++ {
		heard, err := w.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if heard {
			failures = 1
		}
		next := w.cfg.Retry.Delay(failures)
		if errors.Is(err, errDeaf) {
			next = max(next, deafPause)
		}
		w.cfg.Log.WarnContext(ctx, "outbox: not listening, polling goes on",
			"channel", w.cfg.Channel, "in_a_row", failures, "next", next.Round(time.Millisecond), "error", err)
		bus.Pause(ctx, next)
	}
	return nil
}

// turn changes what Hears says. The relays look again in both cases: for what was
// written before anybody listened, and for how long they may wait from now on.
func (w *Waker) turn(hears bool) {
	if w.hears.Swap(hears) != hears {
		w.wakeAll()
	}
}

func (w *Waker) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.relays {
		r.Wake()
	}
}

// add makes a relay one of those to wake.
func (w *Waker) add(r *Relay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.relays = append(w.relays, r)
}

// ready waits for the first LISTEN, so that what is written after a relay's first
// claim is not missed, but not for long: polling needs nobody who listens.
func (w *Waker) ready(ctx context.Context) {
	t := time.NewTimer(hearLimit)
	defer t.Stop()
	select {
	case <-w.tried:
	case <-ctx.Done():
	case <-t.C:
	}
}
