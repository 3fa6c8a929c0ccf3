package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
	"outboxplayground/core/shop"
)

// Produced is what a way of placing orders costs with so many clients.
type Produced struct {
	Bus             string  `json:"bus"`
	Form            string  `json:"form"`
	Clients         int     `json:"clients"`
	OrdersPerSecond float64 `json:"orders_per_s"`
	P50             float64 `json:"p50_ms"`
	P99             float64 `json:"p99_ms"`
	// OfOrdersOnly is the rate as a share of that of the same form without an outbox,
	// and AddedP50 what the outbox adds to the median.
	OfOrdersOnly float64 `json:"of_orders_only"`
	AddedP50     float64 `json:"added_p50_ms"`
	Rows         int     `json:"rows"`   // orders of a round
	Rounds       int     `json:"rounds"` // figures are the medians of so many
	PayloadBytes int     `json:"payload_bytes"`
	Postgres     string  `json:"postgres"`
	// Lost are orders without their event, Duplicated events beyond their number.
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
}

// form is a way of placing an order, and the one that it is compared with.
type form struct {
	name, base string
	outbox     bool
	place      func(ctx context.Context, conn *pgxpool.Conn, o shop.Order, m bus.Message) error
}

const (
	txOnly, txBoth   = "orders only, transaction", "orders and outbox, transaction"
	oneOnly, oneBoth = "orders only, one statement", "orders and outbox, one statement"

	// insertOrder is what shop.Insert does, as the one statement of its transaction.
	insertOrder = `INSERT INTO orders (event_id, user_id, items, bus) VALUES ($1, $2, $3, $4)`
)

func forms() []form {
	args := func(o shop.Order) []any { return []any{o.EventID, o.UserID, `["A","B"]`, o.Bus} }
	return []form{
		{txOnly, txOnly, false, func(ctx context.Context, conn *pgxpool.Conn, o shop.Order, _ bus.Message) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return shop.Insert(ctx, tx, o) })
		}},
		{txBoth, txOnly, true, func(ctx context.Context, conn *pgxpool.Conn, o shop.Order, m bus.Message) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				return errors.Join(shop.Insert(ctx, tx, o), outbox.Write(ctx, tx, o.Bus, m))
			})
		}},
		{oneOnly, oneOnly, false, func(ctx context.Context, conn *pgxpool.Conn, o shop.Order, _ bus.Message) error {
			_, err := conn.Exec(ctx, insertOrder, args(o)...)
			return err
		}},
		{oneBoth, oneOnly, true, func(ctx context.Context, conn *pgxpool.Conn, o shop.Order, m bus.Message) error {
			sql, all, err := outbox.OneStatement(insertOrder+` RETURNING 1`, args(o), o.Bus, m)
			if err != nil {
				return err
			}
			_, err = conn.Exec(ctx, sql, all...)
			return err
		}},
	}
}

// rounds is how often each form is measured, in turns; odd, so that a median is one
// of them.
const rounds = 3

// Produce measures what the outbox costs those who place orders: c.Rows of them in
// each of three rounds, with so many clients at once, each on a connection of its
// own. The four forms take turns, so that a slow minute of the machine is shared.
func Produce(ctx context.Context, c Config, clients int, tell func(stage string), got func(Produced) error) (err error) {
	if c, err = c.withDefaults(); err != nil {
		return err
	}
	if err := checkClients(clients); err != nil {
		return err
	}
	s, err := open(ctx, c, level, clients+1)
	defer func() {
		if closed := s.close(ctx); err == nil {
			err = closed
		}
	}()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	all := map[string][]Produced{}
	for round := range rounds {
		for _, f := range forms() {
			tell(fmt.Sprintf("%d clients, round %d of %d: %s", clients, round+1, rounds, f.name))
			p, err := s.produce(ctx, f, clients)
			if err != nil {
				return fmt.Errorf("bench: %s: %w", f.name, err)
			}
			all[f.name] = append(all[f.name], p)
		}
	}
	return s.compare(ctx, all, got)
}

// compare reports the medians, each beside its form without an outbox.
func (s *site) compare(ctx context.Context, all map[string][]Produced, got func(Produced) error) error {
	settings, err := s.settings(ctx)
	if err != nil {
		return err
	}
	for _, f := range forms() {
		p, base := middle(all[f.name]), middle(all[f.base])
		p.Postgres, p.OfOrdersOnly, p.AddedP50 = settings, p.OrdersPerSecond/base.OrdersPerSecond, p.P50-base.P50
		if err := got(p); err != nil {
			return err
		}
	}
	return nil
}

// middle has the median of each figure and the sum of what went wrong.
func middle(all []Produced) Produced {
	var rates, p50, p99 []float64
	p := all[0]
	p.Rounds, p.Lost, p.Duplicated = len(all), 0, 0
	for _, one := range all {
		rates, p50, p99 = append(rates, one.OrdersPerSecond), append(p50, one.P50), append(p99, one.P99)
		p.Lost, p.Duplicated = p.Lost+one.Lost, p.Duplicated+one.Duplicated
	}
	p.OrdersPerSecond, p.P50, p.P99 = median(rates), median(p50), median(p99)
	return p
}

// produce is one round of one form.
func (s *site) produce(ctx context.Context, f form, clients int) (Produced, error) {
	p := Produced{Bus: s.Bus, Form: f.name, Clients: clients, Rows: s.Rows, PayloadBytes: s.PayloadBytes}
	if err := s.exec(ctx, `TRUNCATE orders, outbox`, `ANALYZE orders, outbox`); err != nil {
		return p, err
	}
	took := make([][]float64, clients)
	g, running := errgroup.WithContext(ctx)
	begun := time.Now()
	for i := range clients {
		share := s.Rows / clients
		if i < s.Rows%clients {
			share++
		}
		g.Go(func() (err error) { took[i], err = s.client(running, f, share); return err })
	}
	err := g.Wait()
	p.OrdersPerSecond = rate(s.Rows, begun)
	if err != nil {
		return p, err
	}
	waits := slices.Sorted(slices.Values(slices.Concat(took...)))
	p.P50, p.P99 = quantile(waits, .5), quantile(waits, .99)
	return p, s.tally(ctx, f, &p)
}

// client places orders one after another and returns the milliseconds of each.
func (s *site) client(ctx context.Context, f form, n int) ([]float64, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	took, body := make([]float64, n), payload(s.PayloadBytes)
	for i := range n {
		o := shop.Order{EventID: uuid.NewString(), UserID: "u1", Items: []string{"A", "B"}, Bus: s.Bus}
		m := bus.Message{ID: o.EventID, Topic: "safe", Payload: body}
		begun := time.Now()
		if err := f.place(ctx, conn, o, m); err != nil {
			return nil, err
		}
		took[i] = ms(time.Since(begun))
	}
	return took, nil
}

// tally compares the orders with their events.
func (s *site) tally(ctx context.Context, f form, p *Produced) error {
	const both = `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM outbox),
		(SELECT count(*) FROM orders JOIN outbox USING (event_id))`
	var orders, events, pairs int
	if err := s.pool.QueryRow(ctx, both).Scan(&orders, &events, &pairs); err != nil {
		return err
	}
	if orders != s.Rows {
		return fmt.Errorf("%d orders are there, want %d", orders, s.Rows)
	}
	if f.outbox {
		p.Lost, p.Duplicated = orders-pairs, events-pairs
	}
	return nil
}
