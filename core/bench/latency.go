package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
	"outboxplayground/core/shop"
)

// Load is what a latency is measured under.
type Load struct {
	// Rate is how many orders are placed in a second, 1 to 10,000. Default: 50.
	Rate  int
	Waker Waker
	// Rest is how long the queries of the worker are counted when all is sent.
	// Default: 3 s.
	Rest time.Duration
}

// Delayed is what a latency measured: from the moment at which COMMIT was sent to
// that at which a consumer on another connection held the event.
type Delayed struct {
	Bus   string  `json:"bus"`
	Waker string  `json:"waker"`
	Rate  int     `json:"rate"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
	// AtRest is how many statements a second the worker sends while there is nothing
	// to do, BEGIN and COMMIT included.
	AtRest       float64 `json:"queries_per_s_at_rest"`
	Rows         int     `json:"rows"`
	Batch        int     `json:"batch"`
	Workers      int     `json:"workers"`
	PayloadBytes int     `json:"payload_bytes"`
	Postgres     string  `json:"postgres"`
	Lost         int     `json:"lost"`
	Duplicated   int     `json:"duplicated"`
	Stuck        int     `json:"stuck"`
}

func (l Load) withDefaults() (Load, error) {
	if l.Rate == 0 {
		l.Rate = 50
	}
	if l.Rest == 0 {
		l.Rest = 3 * time.Second
	}
	if l.Waker.Level == 0 {
		l.Waker.Level = level
	}
	switch {
	case l.Rate < 1 || l.Rate > 10_000:
		return l, fmt.Errorf("bench: rate must be 1 to 10,000 orders a second, not %d", l.Rate)
	case l.Rest < 0:
		return l, errors.New("bench: a negative rest")
	case l.Waker.Run == nil:
		return l, errors.New("bench: a latency needs a waker, for example bench.Wake()")
	}
	return l, nil
}

// seconds is how long a latency is measured where Rows does not say.
const seconds = 4

// Latency places orders at a steady rate, whatever becomes of them, and takes the
// time until each event has arrived. c.Rows is how many; default: 4 s of them.
func Latency(ctx context.Context, c Config, l Load, tell func(stage string)) (d Delayed, err error) {
	if l, err = l.withDefaults(); err != nil {
		return d, err
	}
	if c.Rows == 0 {
		c.Rows = seconds * l.Rate
	}
	if c, err = c.withDefaults(); err != nil {
		return d, err
	}
	c.Workers = 1
	tell(fmt.Sprintf("%s: %d orders at %d/s", l.Waker.Name, c.Rows, l.Rate))
	s, err := open(ctx, c, l.Waker.Level, producers, timed)
	defer func() {
		if closed := s.close(ctx); err == nil {
			err = closed
		}
	}()
	if err == nil {
		err = s.connect(ctx) // the consumer's own
	}
	if err != nil {
		return d, fmt.Errorf("bench: %w", err)
	}
	d = Delayed{Bus: c.Bus, Waker: l.Waker.Name, Rate: l.Rate, Rows: c.Rows, Batch: c.Batch, Workers: 1, PayloadBytes: c.PayloadBytes}
	if d.Postgres, err = s.settings(ctx); err != nil {
		return d, err
	}
	if err := s.latency(ctx, l, &d); err != nil {
		return d, fmt.Errorf("bench: latency, %s: %w", l.Waker.Name, err)
	}
	return d, nil
}

// latency runs the worker and the consumer beside the producers.
func (s *site) latency(ctx context.Context, l Load, d *Delayed) error {
	pool, queries, err := s.counted(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	p := &producer{site: s, committed: make(chan struct{}, 1)}
	lane := Lane{Pool: pool, Bus: s.buses[0], Name: s.Bus, Schema: s.schema, Rows: s.Batch, Committed: p.committed}
	if l.Waker.Prepare != nil {
		if err := l.Waker.Prepare(ctx, lane); err != nil {
			return err
		}
	}
	in := newArrivals()
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(running)
	g.Go(func() error { return s.buses[1].Subscribe(running, timed, group, in.take) })
	g.Go(func() error { return l.Waker.Run(running, lane) })
	err = p.measure(running, l, in, queries, d)
	stop()
	return errors.Join(g.Wait(), err)
}

// producers is how many orders are written side by side: more than any rate needs
// as long as a COMMIT takes milliseconds.
const producers = 16

// producer places orders and remembers when each COMMIT was sent.
type producer struct {
	*site
	committed chan struct{}
	ids       []string
	sent      []time.Time
}

// measure has orders placed, waits for their events and reads the figures. The
// orders before the measured ones open every connection and prepare every statement.
func (p *producer) measure(ctx context.Context, l Load, in *arrivals, queries *queryCount, d *Delayed) error {
	warm := min(p.Rows, 2*producers)
	if err := p.place(ctx, warm, 10*l.Rate); err != nil {
		return err
	}
	more := held(p.buses[1], timed)
	if err := in.until(ctx, warm, more); err != nil {
		return err
	}
	if err := p.place(ctx, p.Rows, l.Rate); err != nil {
		return err
	}
	err := in.until(ctx, warm+p.Rows, more)
	if err == nil && !l.Waker.Unmarked {
		err = p.settled(ctx)
	}
	if err != nil {
		return err
	}
	if d.AtRest, err = queries.rate(ctx, l.Rest); err != nil {
		return err
	}
	const failed = `SELECT count(*) FROM outbox WHERE status = 'failed'`
	if err := p.pool.QueryRow(ctx, failed).Scan(&d.Stuck); err != nil {
		return err
	}
	waits, distinct, total := in.since(p.ids, p.sent)
	d.P50, d.P99, d.Max = quantile(waits, .5), quantile(waits, .99), quantile(waits, 1)
	d.Lost, d.Duplicated = warm+p.Rows-d.Stuck-distinct, total-distinct
	return nil
}

// place makes n orders at a rate. An order that takes long delays none behind it.
func (p *producer) place(ctx context.Context, n, rate int) error {
	p.ids, p.sent = make([]string, n), make([]time.Time, n)
	g, placing := errgroup.WithContext(ctx)
	g.SetLimit(4 * producers)
	begun := time.Now()
	for i := range n {
		if err := sleepUntil(placing, begun.Add(time.Duration(i)*time.Second/time.Duration(rate))); err != nil {
			break
		}
		g.Go(func() error { return p.one(placing, i) })
	}
	return errors.Join(g.Wait(), ctx.Err())
}

// one places an order as a chapter does: order and event in one transaction.
func (p *producer) one(ctx context.Context, i int) error {
	p.ids[i] = uuid.NewString()
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		o := shop.Order{EventID: p.ids[i], UserID: "u1", Items: []string{"A", "B"}, Bus: p.Bus}
		if err := shop.Insert(ctx, tx, o); err != nil {
			return err
		}
		m := bus.Message{ID: o.EventID, Topic: timed, Payload: payload(p.PayloadBytes)}
		if err := outbox.Write(ctx, tx, p.Bus, m); err != nil {
			return err
		}
		p.sent[i] = time.Now() // COMMIT is what comes next
		return nil
	})
	select {
	case p.committed <- struct{}{}:
	default: // the one that is there will do
	}
	return err
}

func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}
