package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/bus"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
)

// Way is a way of placing orders that is measured beside others.
type Way struct {
	Name  string
	Level int    // the chapter whose tables it needs
	Topic string // where its events go
	// New makes the parts. The second one sends what the first has written, or is nil
	// where that is not measured: then the broker has no part in the figure.
	New func(Place) (Producer, Sender)
}

// Place is what the parts of a way work with.
type Place struct {
	DB      *pgxpool.Pool
	Bus     bus.Bus
	BusName string
	Schema  string
}

// Producer places an order; an error means that it did not.
type Producer interface {
	PlaceOrder(ctx context.Context, o shop.Order) error
}

// Sender works until its context ends.
type Sender interface {
	Run(ctx context.Context) error
}

// Placed is what a way costs with so many clients.
type Placed struct {
	Bus     string `json:"bus"`
	Way     string `json:"way"`
	Clients int    `json:"clients"`
	// OrdersPerSecond runs until the last order is placed and, with a Sender, sent.
	OrdersPerSecond float64 `json:"orders_per_s"`
	P50             float64 `json:"p50_ms"` // what a client waits for one order
	P99             float64 `json:"p99_ms"`
	// Slower is how many times as many orders the first way places in the same time.
	Slower   float64 `json:"slower"`
	Rows     int     `json:"rows"`   // orders of a round
	Rounds   int     `json:"rounds"` // figures are the medians of so many
	Postgres string  `json:"postgres"`
}

// Ways measures ways of placing orders beside each other: c.Rows orders in each of
// three rounds, with so many clients at once, each customer ordering once. The ways
// take turns, so that a slow minute of the machine is shared.
func Ways(ctx context.Context, c Config, clients int, ways []Way, tell func(stage string), got func(Placed) error) error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	if err := checkClients(clients); err != nil {
		return err
	}
	all := map[string][]Placed{}
	for round := range rounds {
		for _, w := range ways {
			tell(fmt.Sprintf("%d clients, round %d of %d: %s", clients, round+1, rounds, w.Name))
			p, err := place(ctx, c, w, clients)
			if err != nil {
				return fmt.Errorf("bench: %s: %w", w.Name, err)
			}
			all[w.Name] = append(all[w.Name], p)
		}
	}
	for _, w := range ways {
		p := middlePlaced(all[w.Name])
		p.Slower = middlePlaced(all[ways[0].Name]).OrdersPerSecond / p.OrdersPerSecond
		if err := got(p); err != nil {
			return err
		}
	}
	return nil
}

func middlePlaced(all []Placed) Placed {
	of := func(figure func(Placed) float64) float64 {
		var values []float64
		for _, p := range all {
			values = append(values, figure(p))
		}
		return median(values)
	}
	p := all[0]
	p.Rounds = len(all)
	p.OrdersPerSecond = of(func(p Placed) float64 { return p.OrdersPerSecond })
	p.P50, p.P99 = of(func(p Placed) float64 { return p.P50 }), of(func(p Placed) float64 { return p.P99 })
	return p
}

// place is one round of one way, in a schema of its own.
func place(ctx context.Context, c Config, w Way, clients int) (p Placed, err error) {
	c.Workers = 1
	s, err := open(ctx, c, w.Level, clients+4, w.Topic)
	defer func() {
		err = errors.Join(err, s.endPrepared(ctx), s.close(ctx))
	}()
	if err != nil {
		return p, err
	}
	p = Placed{Bus: c.Bus, Way: w.Name, Clients: clients, Rows: c.Rows}
	if p.Postgres, err = s.settings(ctx); err != nil {
		return p, err
	}
	producer, sender := w.New(Place{s.pool, s.buses[0], s.Bus, s.schema})
	sending, stop := context.WithCancel(ctx)
	sent := make(chan error, 1)
	go func() {
		defer close(sent)
		if sender != nil {
			sent <- sender.Run(sending)
		}
	}()
	err = s.placeAll(ctx, producer, sender != nil, &p)
	stop()
	return p, errors.Join(err, <-sent)
}

// placeAll places the orders and, where somebody sends, waits until all are sent.
func (s *site) placeAll(ctx context.Context, producer Producer, sends bool, p *Placed) error {
	took := make([][]float64, p.Clients)
	g, running := errgroup.WithContext(ctx)
	begun := time.Now()
	for i := range p.Clients {
		g.Go(func() (err error) {
			took[i], err = s.orders(running, producer, (s.Rows+i)/p.Clients)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if sends {
		if err := s.allSent(ctx); err != nil {
			return err
		}
	}
	p.OrdersPerSecond = rate(s.Rows, begun)
	waits := slices.Sorted(slices.Values(slices.Concat(took...)))
	p.P50, p.P99 = quantile(waits, .5), quantile(waits, .99)
	var n int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&n); err != nil || n == s.Rows {
		return err
	}
	return fmt.Errorf("%d orders are there, want %d", n, s.Rows)
}

// orders places so many, one after another, and returns the milliseconds of each.
func (s *site) orders(ctx context.Context, producer Producer, n int) ([]float64, error) {
	took := make([]float64, n)
	for i := range n {
		id := uuid.NewString()
		begun := time.Now()
		if err := producer.PlaceOrder(ctx, shop.Order{EventID: id, UserID: "user-" + id, Items: []string{"A", "B"}, Bus: s.Bus}); err != nil {
			return nil, err
		}
		took[i] = ms(time.Since(begun))
	}
	return took, nil
}

func (s *site) allSent(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		var pending bool
		err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox WHERE status = 'pending')`).Scan(&pending)
		if err != nil || !pending {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// endPrepared rolls back what a failed round has left prepared: the schema could not
// be dropped.
func (s *site) endPrepared(ctx context.Context) error {
	if s.pool == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	left, err := prepared.List(ctx, s.pool, s.schema)
	for _, t := range left {
		err = errors.Join(err, prepared.Rollback(ctx, s.pool, t.GID))
	}
	return err
}
