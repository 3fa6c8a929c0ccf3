package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/bus"
	"outboxplayground/core/cdc"
	"outboxplayground/core/outbox"
)

// Drained is what a drain measured.
type Drained struct {
	Bus string `json:"bus"`
	// EventsPerSecond is the relay's rate, from the first claim to the last mark.
	EventsPerSecond float64 `json:"events_per_s"`
	// ReferencePerSecond is the rate of a bare loop on the same table: one reader by
	// id, one publisher for each worker, one UPDATE for what has piled up. It has no
	// lease, no retries and no way to share the table.
	ReferencePerSecond float64 `json:"reference_per_s"`
	// RawPerSecond is the rate of confirmed publishes of the same driver without a
	// database, in the same batches on as many connections.
	RawPerSecond float64 `json:"raw_publish_per_s"`
	// RowByRowPerSecond is the rate of Config.RowByRow; 0 where there is none.
	RowByRowPerSecond float64 `json:"row_by_row_per_s,omitempty"`
	// LogPerSecond is the rate of chapter 8's relay, which reads the same backlog from
	// the log of the database: until its slot has passed it. 0 without Config.Log, and
	// where the log cannot be read.
	LogPerSecond float64 `json:"log_per_s,omitempty"`
	// AllocsPerEvent is how many objects this process allocated while the relay ran,
	// driver and all, divided by the events.
	AllocsPerEvent float64 `json:"allocs_per_event"`
	Rows           int     `json:"rows"`
	Batch          int     `json:"batch"`
	Workers        int     `json:"workers"`
	PayloadBytes   int     `json:"payload_bytes"`
	Postgres       string  `json:"postgres"` // version and durability settings
	Lost           int     `json:"lost"`
	Duplicated     int     `json:"duplicated"`
	Stuck          int     `json:"stuck"`
}

// RelayStage is what Drain tells when the relay begins.
const RelayStage = "the relay"

// Drain fills an outbox and lets the relay empty it, beside the bare loop and the
// bus alone. tell is told what is under way. All that it makes is removed again.
func Drain(ctx context.Context, c Config, tell func(stage string)) (d Drained, err error) {
	if c, err = c.withDefaults(); err != nil {
		return d, err
	}
	s, err := open(ctx, c, level, 3*c.Workers+2, c.topics()...)
	defer func() {
		if closed := s.close(ctx); err == nil {
			err = closed
		}
	}()
	if err != nil {
		return d, fmt.Errorf("bench: %w", err)
	}
	d = Drained{Bus: c.Bus, Rows: c.Rows, Batch: c.Batch, Workers: c.Workers, PayloadBytes: c.PayloadBytes}
	for _, stage := range []struct {
		name string
		do   func(context.Context, *Drained) error
	}{
		{"publishing without a database", s.raw}, {"the bare loop", s.reference},
		{"row by row", s.rowByRow}, {RelayStage, s.relays}, {"counting what has arrived", s.count},
	} {
		tell(stage.name)
		if err := stage.do(ctx, &d); err != nil {
			return d, fmt.Errorf("bench: %s: %w", stage.name, err)
		}
	}
	if c.Log {
		tell("the relay that reads the log")
		if err := c.logDrain(ctx, &d); err != nil && !errors.Is(err, cdc.ErrUnsupported) {
			return d, fmt.Errorf("bench: the log: %w", err)
		}
	}
	return d, nil
}

// topics are those of a drain.
func (c Config) topics() []string {
	topics := []string{drained, reference, raw}
	if c.RowByRow != nil {
		topics = append(topics, oneByOne)
	}
	return topics
}

// fewRows is enough to know the rate of a worker that takes a row at a time.
const fewRows = 2000

// rowByRow runs the worker for comparison, without its pauses between two polls.
func (s *site) rowByRow(ctx context.Context, d *Drained) error {
	if s.RowByRow == nil {
		return nil
	}
	rows := min(s.Rows, fewRows)
	if err := s.fill(ctx, oneByOne, rows); err != nil {
		return err
	}
	step, begun := s.RowByRow(s.pool, s.buses[0], s.Bus), time.Now()
	for done := 0; done < rows; {
		n, err := step(ctx)
		if err != nil {
			return err
		}
		if done += n; n == 0 {
			return fmt.Errorf("%d of %d rows, and then none", done, rows)
		}
	}
	d.RowByRowPerSecond = rate(rows, begun)
	return nil
}

// raw publishes as many events as there are rows, straight to the bus.
func (s *site) raw(ctx context.Context, d *Drained) error {
	body, left := payload(s.PayloadBytes), make(chan int, s.Rows/s.Batch+1)
	for n := s.Rows; n > 0; n -= s.Batch {
		left <- min(n, s.Batch)
	}
	close(left)
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for _, b := range s.buses {
		g.Go(func() error {
			for n := range left {
				msgs := make([]bus.Message, n)
				for i := range msgs {
					msgs[i] = bus.Message{ID: uuid.NewString(), Topic: raw, Payload: body}
				}
				if err := b.Publish(ctx, msgs...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	d.RawPerSecond = rate(s.Rows, start)
	return err
}

// relays runs the real thing until nothing is pending.
func (s *site) relays(ctx context.Context, d *Drained) error {
	if err := s.fill(ctx, drained, s.Rows); err != nil {
		return err
	}
	var relays []*outbox.Relay
	for _, b := range s.buses {
		r, err := outbox.NewRelay(s.pool, b, s.Bus, outbox.Config{Batch: s.Batch})
		if err != nil {
			return err
		}
		relays = append(relays, r)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	before, start := allocs(), time.Now()
	for _, r := range relays {
		all.Go(func() { _ = r.Run(running) }) // its error is always nil
	}
	err := s.untilSettled(ctx, relays)
	d.EventsPerSecond = rate(s.Rows, start)
	d.AllocsPerEvent = float64(allocs()-before) / float64(s.Rows)
	stop()
	if err != nil {
		return err
	}
	if d.Postgres, err = s.settings(ctx); err != nil {
		return err
	}
	return s.pool.QueryRow(ctx, `SELECT count(*) FROM outbox WHERE status = 'failed'`).Scan(&d.Stuck)
}

// allocs is how many objects this process has allocated so far.
func allocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// untilSettled asks the relays' own counters, which cost nothing, and then the
// table, which decides.
func (s *site) untilSettled(ctx context.Context, relays []*outbox.Relay) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		done := int64(0)
		for _, r := range relays {
			c := r.Counters()
			done += c.Sent + c.Parked
		}
		if done >= int64(s.Rows) || n%1000 == 999 {
			var pending bool
			if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox WHERE status = 'pending')`).Scan(&pending); err != nil || !pending {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// count reads back what the relay has sent, every event of it.
func (s *site) count(ctx context.Context, d *Drained) error {
	in := newArrivals()
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(running)
	g.Go(func() error { return s.buses[0].Subscribe(running, drained, group, in.take) })
	err := in.until(running, s.Rows-d.Stuck, held(s.buses[0], drained))
	stop()
	if err := errors.Join(g.Wait(), err); err != nil {
		return err
	}
	distinct, total := in.count()
	d.Lost, d.Duplicated = s.Rows-d.Stuck-distinct, total-distinct
	return nil
}
