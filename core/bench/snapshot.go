package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
)

// Window is the rate of a stretch of a closed loop: insert 100 events, claim them,
// settle them, again.
type Window struct {
	Bus   string `json:"bus"`
	Claim string `json:"claim"` // "cursor": the relay's. "from 0": the same without its memory
	// Phase is "before", "held" while another session holds a snapshot, or "after",
	// when it has been released and the table vacuumed.
	Phase           string  `json:"phase"`
	Second          float64 `json:"second"` // since the loop began, at the window's end
	EventsPerSecond float64 `json:"events_per_s"`
	// OfBefore is the rate as a share of that before the snapshot.
	OfBefore float64 `json:"of_before"`
	Rows     int64   `json:"rows"` // settled in this window
	// Dead rows are versions that no later transaction can see, and that the snapshot
	// keeps in the table and its indexes.
	Dead     int64  `json:"dead_rows"`
	Postgres string `json:"postgres"`
}

// snapshotWindow is how long a window is at most.
const snapshotWindow = 10 * time.Second

// Snapshot measures the relay, with a bus that takes everything at once, in a closed
// loop while a REPEATABLE READ snapshot is held for so long: once as it is, and once
// with every claim beginning at the first pending row. got is told each window.
func Snapshot(ctx context.Context, c Config, hold time.Duration, tell func(stage string), got func(Window) error) error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	if hold <= 0 || hold > time.Hour {
		return fmt.Errorf("bench: a snapshot is held for up to 1h, not %v", hold)
	}
	for _, how := range []struct {
		name  string
		queue outbox.Queue
	}{{"cursor", outbox.Leased{}}, {"from 0", forgetful{}}} {
		tell(fmt.Sprintf("claims %s: a snapshot held for %v", how.name, hold))
		if err := snapshotOf(ctx, c, how.queue, hold, func(w Window) error {
			w.Claim = how.name
			return got(w)
		}); err != nil {
			return fmt.Errorf("bench: snapshot, %s: %w", how.name, err)
		}
	}
	return nil
}

// forgetful claims as outbox.Leased does, without the relay's cursor.
type forgetful struct{ outbox.Leased }

// Claim implements outbox.Queue.
func (f forgetful) Claim(ctx context.Context, tx pgx.Tx, w outbox.Want) ([]outbox.Entry, error) {
	w.After = 0
	return f.Leased.Claim(ctx, tx, w)
}

// void is a double: a bus that takes everything at once, so that the database alone
// is measured.
type void struct{}

func (void) Publish(context.Context, ...bus.Message) error { return nil }
func (void) Subscribe(context.Context, string, string, bus.Handler) error {
	return errors.New("bench: nothing comes out of the void")
}
func (void) Close() error { return nil }

// loop is the closed loop over one table.
type loop struct {
	*site
	relay  *outbox.Relay
	begun  time.Time
	before float64
	got    func(Window) error
}

func snapshotOf(ctx context.Context, c Config, q outbox.Queue, hold time.Duration, got func(Window) error) (err error) {
	s, err := open(ctx, c, level, 4)
	defer func() {
		if closed := s.close(ctx); err == nil {
			err = closed
		}
	}()
	if err != nil {
		return err
	}
	// Some sent rows and their statistics, as in a table that has been in use.
	if err := s.pile(ctx, 0, 20_000, "sent", func(string) {}); err != nil {
		return err
	}
	r, err := outbox.NewRelay(s.pool, void{}, s.Bus, outbox.Config{Batch: claimRows, Queue: q})
	if err != nil {
		return err
	}
	l := &loop{site: s, relay: r, begun: time.Now(), got: got}
	window := min(snapshotWindow, hold)
	if err := l.window(ctx, "before", window); err != nil {
		return err
	}
	if err := l.held(ctx, hold, window); err != nil {
		return err
	}
	if err := s.exec(ctx, `VACUUM outbox`); err != nil {
		return err
	}
	return l.window(ctx, "after", window)
}

// held runs the loop while a session beside it holds a snapshot.
func (l *loop) held(ctx context.Context, hold, window time.Duration) error {
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, `SELECT 1`); err != nil { // the snapshot is taken here
		return err
	}
	for end := time.Now().Add(hold); time.Now().Before(end); {
		if err := l.window(ctx, "held", min(window, time.Until(end))); err != nil {
			return err
		}
	}
	return tx.Rollback(ctx)
}

func (l *loop) window(ctx context.Context, phase string, d time.Duration) (err error) {
	const (
		add  = `INSERT INTO outbox (event_id, bus, payload) SELECT gen_random_uuid(), $2, $3 FROM generate_series(1, $1::int)`
		dead = `SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'outbox'`
	)
	w, body, begun := Window{Bus: l.Bus, Phase: phase}, string(payload(l.PayloadBytes)), time.Now()
	for time.Since(begun) < d {
		if _, err := l.pool.Exec(ctx, add, claimRows, l.Bus, body); err != nil {
			return err
		}
		res, err := l.relay.Step(ctx)
		if err != nil {
			return err
		}
		w.Rows += int64(res.Sent)
	}
	w.EventsPerSecond = rate(int(w.Rows), begun)
	w.Second = time.Since(l.begun).Seconds()
	if phase == "before" {
		l.before = w.EventsPerSecond
	}
	w.OfBefore = w.EventsPerSecond / l.before
	if w.Postgres, err = l.settings(ctx); err != nil {
		return err
	}
	if err := l.pool.QueryRow(ctx, dead, l.schema).Scan(&w.Dead); err != nil {
		return err
	}
	return l.got(w)
}
