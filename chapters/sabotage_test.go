package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// sabotageMark names the sabotage with which a child of the lab shall run.
const sabotageMark = "PLAYGROUND_TEST_SABOTAGE"

// sabotage is a mistake that somebody could make in a chapter, a driver or the
// listener. The lab has to find it, in children that run it.
type sabotage struct {
	chapter func(*lab.Variant)    // changes the parts of chapter 3
	driver  func(bus.Bus) bus.Bus // changes every bus
}

func sabotages() map[string]sabotage {
	return map[string]sabotage{
		"insert-outside": {chapter: func(v *lab.Variant) {
			v.Producer = func(d lab.Deps) lab.Producer { return &insertOutside{d} }
		}},
		"mark-first": {chapter: func(v *lab.Variant) {
			honest := v.Relay
			v.Relay = func(d lab.Deps) lab.Runner {
				d.Bus = &markFirst{d.Bus, d}
				return honest(d)
			}
		}},
		"no-email": {chapter: func(v *lab.Variant) {
			honest := v.Consumer
			v.Consumer = func(d lab.Deps) bus.Handler { return noEmail(d, honest(d)) }
		}},
		"drop-one":  {driver: func(b bus.Bus) bus.Bus { return &dropOne{Bus: b} }},
		"ack-first": {driver: func(b bus.Bus) bus.Bus { return &ackFirst{b} }},
	}
}

// runSabotaged is a child of the lab with one mistake in it.
func runSabotaged(name string) int {
	s, ok := sabotages()[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "there is no sabotage", name)
		return exitCouldNotRun
	}
	chapters := contents()
	if s.chapter != nil {
		s.chapter(&chapters[2].Variants[0])
	}
	open := func(name, url string) lab.OpenBus {
		return func(ctx context.Context, o lab.BusOptions) (bus.Bus, error) {
			b, err := openBus(name, url)(ctx, o)
			if err == nil && s.driver != nil {
				b = s.driver(b)
			}
			return b, err
		}
	}
	err := lab.RunChild(context.Background(), lab.ChildEnv{Chapters: chapters, Open: open, In: os.Stdin, Out: os.Stdout})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitCouldNotRun
	}
	return 0
}

// insertOutside has chapter 3's outbox insert taken out of the transaction.
type insertOutside struct{ lab.Deps }

func (s *insertOutside) PlaceOrder(ctx context.Context, o shop.Order) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, o); err != nil {
			return err
		}
		return s.Steps.Reach(ctx, checkpoint.BeforeCommit, o.EventID)
	})
	if err != nil {
		return err
	}
	if err := s.Steps.Reach(ctx, checkpoint.AfterCommit, o.EventID); err != nil {
		return err
	}
	m := shop.OrderPlaced(o, "safe")
	_, err = s.DB.Exec(ctx, `INSERT INTO outbox (event_id, bus, topic, payload) VALUES ($1, $2, $3, $4)`,
		m.ID, o.Bus, m.Topic, m.Payload)
	return err
}

// markFirst marks a row as sent before it is published.
type markFirst struct {
	bus.Bus
	d lab.Deps
}

func (b *markFirst) Publish(ctx context.Context, msgs ...bus.Message) error {
	for _, m := range msgs {
		if _, err := b.d.DB.Exec(ctx, `UPDATE outbox SET status = 'sent', sent_at = now() WHERE event_id = $1`, m.ID); err != nil {
			return err
		}
		if err := b.d.Steps.Reach(ctx, checkpoint.AfterMark, m.ID); err != nil {
			return err
		}
	}
	return b.Bus.Publish(ctx, msgs...)
}

// dropOne is a driver that says yes to its twentieth message and forgets it.
type dropOne struct {
	bus.Bus
	published atomic.Int32
}

func (b *dropOne) Publish(ctx context.Context, msgs ...bus.Message) error {
	var kept []bus.Message
	for _, m := range msgs {
		if b.published.Add(1) != 20 {
			kept = append(kept, m)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return b.Bus.Publish(ctx, kept...)
}

// ackFirst acknowledges every message and handles it afterwards, when the broker
// has the acknowledgement for certain.
type ackFirst struct{ bus.Bus }

func (b *ackFirst) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	return b.Bus.Subscribe(ctx, topic, group, func(_ context.Context, m bus.Message) error {
		go func() {
			for {
				if n, err := b.Bus.(bus.Backlogger).Backlog(ctx, topic, group); err == nil && n == 0 {
					break
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
			_ = h(ctx, m) // nobody is left to be told: that is the mistake
		}()
		return nil
	})
}

// noEmail notes the delivery of the thirteenth customer's event and sends nothing.
func noEmail(d lab.Deps, honest bus.Handler) bus.Handler {
	return func(ctx context.Context, m bus.Message) error {
		var order shop.Placed
		if err := json.Unmarshal(m.Payload, &order); err != nil {
			return err
		}
		if order.UserID != "user-13" {
			return honest(ctx, m)
		}
		_, err := d.DB.Exec(ctx, `INSERT INTO processed (event_id, consumer, bus) VALUES ($1, $2, $3)`, m.ID, shop.Group, d.BusName)
		return err
	}
}

// killedBeforeEffect is a fault of these tests only: an honest listener survives it.
const killedBeforeEffect = "killed-before-effect"

// Each mistake is found by the fault that is about it, with the event that shows
// it, and is not what the honest chapter declares; where nothing is declared, the
// honest chapter is run first.
func TestSabotageIsCaught(t *testing.T) {
	for _, c := range []struct {
		sabotage, bus, fault string
		order                int
		lost                 int
	}{
		{"insert-outside", "nats", "crash-after-commit", 13, 1},
		{"mark-first", "redis", "crash-after-mark", 13, 1},
		{"mark-first", "rabbitmq", "broker-down", 13, 35},
		{"drop-one", "rabbitmq", "none", 20, 1},
		{"drop-one", "kafka", "none", 20, 1},
		{"ack-first", "nats", killedBeforeEffect, 13, 1},
		{"ack-first", "redis", killedBeforeEffect, 13, 1},
		{"no-email", "nats", "none", 13, 1},
	} {
		t.Run(c.sabotage+"/"+c.bus+"/"+c.fault, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.bus)
			b.Extra = []lab.Fault{lab.KillAt(killedBeforeEffect, lab.Consuming, checkpoint.BeforeEffect)}
			spec := lab.Spec{Chapter: 3, Bus: c.bus, Fault: c.fault}
			if _, listed := lab.FaultNamed(c.fault); !listed { // the listed ones are TestMatrix's
				if honest := b.run(t, spec); honest.Report.Measured.Lost != 0 || honest.Report.Valid != audit.True {
					t.Fatalf("without sabotage:\n%s", explain(honest))
				}
			}
			b.Env = append(b.Env, sabotageMark+"="+c.sabotage)
			caught := b.run(t, spec)
			defer func() {
				if t.Failed() {
					t.Log(explain(caught))
				}
			}()
			smallest(t, caught, c.order, "lost")
			if v := caught.Report.Measured; v.Lost != c.lost || v.Orders != lab.DefaultOrders {
				t.Errorf("measured %+v, want %d lost", v, c.lost)
			}
			if f := caught.Report.Faults[0]; c.fault != "none" && f.Hits == 0 {
				t.Errorf("the fault did not hit: %+v", f)
			}
			if d := caught.Report.Declared; d != "" && lab.Agrees(d, caught.Report) == "" {
				t.Errorf("the comparison with the declaration %q does not notice it", d)
			}
			b.nothingLeft(t)
		})
	}
}

// blind is the database as an audit sees it that does not look at the emails: the
// name of their table is replaced by something else.
type blind struct {
	audit.DB
	instead string
}

func (b blind) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := b.DB.BeginTx(ctx, o)
	return blindTx{tx, b.instead}, err
}

type blindTx struct {
	pgx.Tx
	instead string
}

func (tx blindTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return tx.Tx.QueryRow(ctx, strings.ReplaceAll(sql, "FROM emails", "FROM "+tx.instead), args...)
}

// An audit that ignores emails would be noticed: on a run whose listener noted
// event 13 and sent no email, it finds nothing wrong if it believes the notes, and
// everything if it finds no emails; the real one finds that one event.
func TestAnAuditThatIgnoresEmailsIsCaught(t *testing.T) {
	b := newBench(t, "nats")
	b.Env = append(b.Env, sabotageMark+"=no-email")
	lost := map[string]int{}
	res, err := b.Run(t.Context(), lab.Spec{Chapter: 3, Bus: "nats"}, func(p lab.Progress) {
		if p.Stage != "judging" {
			return
		}
		pool, err := pg.Open(b.DatabaseURL, b.schemas(t)[0], pg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		for _, table := range []string{"emails", "processed", "(SELECT * FROM emails WHERE false) none"} {
			v, err := audit.Tally(t.Context(), audit.Source{Chapter: 3, DB: blind{pool, table}, Outbox: true}, true)
			if err != nil {
				t.Fatal(err)
			}
			lost[table] = v.Lost
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	smallest(t, res, 13, "lost")
	if lost["emails"] != 1 || lost["processed"] != 0 || lost["(SELECT * FROM emails WHERE false) none"] != 47 {
		t.Errorf("lost by what the audit looks at: %v", lost)
	}
}
