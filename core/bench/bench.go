// Package bench measures how fast the outbox is on the reader's own machine. Every
// figure is set beside others of the same run: absolute ones say more about the
// machine than about the code. What was lost or sent twice is counted with it,
// because a relay that loses events is easily fast.
package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// Config says what is measured, and on what. The zero value of each number is its
// default.
type Config struct {
	DatabaseURL string
	Bus         string // its name
	// Open opens the bus under a prefix. The benchmark closes it.
	Open func(ctx context.Context, prefix string) (bus.Bus, error)
	// Shared: the bus lives in one process, so all open one.
	Shared bool
	// Rows is the backlog to be drained, 1 to 10,000,000. Default: 20,000.
	Rows int
	// Batch is how many rows a claim takes. Default: 500.
	Batch int
	// Workers is how many relays share the lane, each with a connection. Default: 1.
	Workers int
	// PayloadBytes is the size of an event's JSON. Default: 200.
	PayloadBytes int
	// Log sets chapter 8's relay beside the other one in a drain.
	Log bool
	// RowByRow, if there is one, makes a worker that sends and marks one row at a time;
	// its step says how many rows it has claimed. A drain sets it beside the relay, with
	// 2,000 rows at most.
	RowByRow func(db *pgxpool.Pool, b bus.Bus, busName string) (step func(context.Context) (int, error))
}

func (c Config) withDefaults() (Config, error) {
	for _, f := range []struct {
		name       string
		value      *int
		usual, max int
	}{{"rows", &c.Rows, 20_000, 10_000_000}, {"batch", &c.Batch, 500, 10_000},
		{"workers", &c.Workers, 1, 64}, {"payload bytes", &c.PayloadBytes, 200, 1 << 20}} {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if *f.value < 0 || *f.value > f.max {
			return c, fmt.Errorf("bench: %s must be 1 to %d, not %d", f.name, f.max, *f.value)
		}
	}
	c.PayloadBytes = max(c.PayloadBytes, len(payload(0)))
	return c, nil
}

// MaxClients is how many clients may place orders at once.
const MaxClients = 128

func checkClients(n int) error {
	if n < 1 || n > MaxClients {
		return fmt.Errorf("bench: clients must be 1 to %d, not %d", MaxClients, n)
	}
	return nil
}

// payload is a JSON object of n bytes, or as few as it takes.
func payload(n int) []byte {
	const empty = `{"event": ""}`
	return []byte(`{"event": "` + strings.Repeat("x", max(0, n-len(empty))) + `"}`)
}

// The topics of a benchmark, and the group that counts what has arrived.
const (
	drained   = "drained"
	reference = "reference"
	raw       = "raw"
	group     = shop.Group // a sweep removes this one
	timed     = "timed"
	oneByOne  = "one-by-one"
	level     = 5 // the chapter whose table it is: leases and all
)

// site is where a benchmark takes place: a schema and topics of its own.
type site struct {
	Config
	schema string
	topics []string
	noted  *lab.Site // nil: nothing was made
	pool   *pgxpool.Pool
	buses  []bus.Bus // one for each worker; none where there are no topics
}

// open builds the site with a table as of a chapter's level and a pool of so many
// connections. Close it also when open has failed.
func open(ctx context.Context, c Config, level, conns int, topics ...string) (*site, error) {
	id := uuid.New()
	s := &site{Config: c, schema: fmt.Sprintf("bench_%x", id[:5]), topics: topics}
	var err error
	if s.noted, err = lab.NoteSite(ctx, c.DatabaseURL, s.schema, c.Bus, topics...); err != nil {
		return s, err
	}
	if err := pg.MigrateChapter(ctx, c.DatabaseURL, s.schema, level); err != nil {
		return s, err
	}
	if s.pool, err = pg.Open(c.DatabaseURL, s.schema, pg.Options{MaxConns: int32(conns), AppName: s.schema}); err != nil {
		return s, err
	}
	if len(topics) == 0 {
		return s, nil
	}
	for range c.Workers {
		if err := s.connect(ctx); err != nil {
			return s, err
		}
	}
	if t, ok := s.buses[0].(bus.Topology); ok {
		for _, topic := range topics {
			if err := t.Prepare(ctx, topic, group); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// connect opens one more bus, or takes the shared one once more.
func (s *site) connect(ctx context.Context) error {
	if s.Shared && len(s.buses) > 0 {
		s.buses = append(s.buses, s.buses[0])
		return nil
	}
	b, err := s.Open(ctx, s.schema)
	if err == nil {
		s.buses = append(s.buses, b)
	}
	return err
}

// cleanLimit bounds the clean-up, which goes on when ctx has ended. What it does not
// reach stays noted: the next start of a playground sweeps.
const cleanLimit = 30 * time.Second

func (s *site) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	var errs []error
	for i, b := range s.buses {
		if t, ok := b.(bus.Topology); ok && i == 0 {
			for _, topic := range s.topics {
				errs = append(errs, t.Remove(ctx, topic, group))
			}
		}
	}
	for i, b := range s.buses {
		if !s.Shared || i == 0 {
			errs = append(errs, b.Close())
		}
	}
	if s.pool != nil {
		s.pool.Close()
	}
	err := errors.Join(errs...)
	return errors.Join(err, s.noted.Close(ctx, err == nil))
}

// settings says what the database's COMMIT is worth.
func (s *site) settings(ctx context.Context) (text string, err error) {
	const sql = `SELECT current_setting('server_version') || ', fsync ' || current_setting('fsync') ||
		', synchronous_commit ' || current_setting('synchronous_commit')`
	err = s.pool.QueryRow(ctx, sql).Scan(&text)
	return text, err
}

// fill makes the backlog and tells the planner about it.
func (s *site) fill(ctx context.Context, topic string, rows int) error {
	const some = `INSERT INTO outbox (event_id, bus, topic, payload)
		SELECT gen_random_uuid(), $2, $3, $4 FROM generate_series(1, $1::int)`
	if _, err := s.pool.Exec(ctx, `TRUNCATE outbox`); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, some, rows, s.Bus, topic, string(payload(s.PayloadBytes))); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, `ANALYZE outbox`)
	return err
}

// rate is n events in the time since start.
func rate(n int, start time.Time) float64 { return float64(n) / time.Since(start).Seconds() }
