package web_test

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// The chapters of these tests are doubles: as little as the API needs to have
// something to talk to. The real ones have their own tests.

// misfortunes are what can become of an order, each a variant that only says so.
func misfortunes() map[string]error {
	return map[string]error{
		"commit-unknown": fmt.Errorf("place: %w", pg.ErrCommitUnknown),
		"bus-down":       fmt.Errorf("publish: %w", bus.ErrUnavailable),
		"bus-refuses":    fmt.Errorf("publish: %w", bus.ErrRejected),
		"ambiguous":      fmt.Errorf("publish: %w", io.ErrUnexpectedEOF),
		"database-gone":  fmt.Errorf("insert: %w", &pgconn.PgError{Code: "57P01", Message: "terminating"}),
	}
}

type unlucky struct{ err error }

func (u unlucky) PlaceOrder(context.Context, shop.Order) error { return u.err }

// held places an order the naive way when it is let go.
type held struct {
	naive
	entered, release chan struct{}
}

func (h *held) PlaceOrder(ctx context.Context, o shop.Order) error {
	close(h.entered)
	<-h.release
	return h.naive.PlaceOrder(ctx, o)
}

func naiveChapter(entered, release chan struct{}) lab.Chapter {
	variant := func(name string, publishFirst bool) lab.Variant {
		return lab.Variant{
			Name: name, Consumer: listener,
			Declared: []lab.Declaration{{Fault: "none", Networked: "ok"}, {Fault: "crash-after-commit", Networked: "lost"}},
			Producer: func(d lab.Deps) lab.Producer { return &naive{d, publishFirst} },
		}
	}
	ch := lab.Chapter{
		Number: 1, Slug: "naive", Topic: "plain",
		Title: lab.Text{En: "Two writes", ZhTW: "寫兩個地方"}, Question: lab.Text{En: "How many?", ZhTW: "幾封？"},
		Files: lessonFiles("naive"), Lessons: []lab.Lesson{{File: "order.go", Marks: []string{"publish()"}}},
		Variants: []lab.Variant{variant("write-first", false), variant("publish-first", true)},
	}
	slow := variant("held", false)
	slow.Producer = func(d lab.Deps) lab.Producer { return &held{naive{d, false}, entered, release} }
	ch.Variants = append(ch.Variants, slow)
	for name, err := range misfortunes() {
		v := variant(name, false)
		v.Producer = func(lab.Deps) lab.Producer { return unlucky{err} }
		ch.Variants = append(ch.Variants, v)
	}
	return ch
}

func outboxChapter() lab.Chapter {
	return lab.Chapter{
		Number: 3, Slug: "outbox", Topic: "safe", Outbox: true,
		Title: lab.Text{En: "Outbox", ZhTW: "寄件匣"}, Question: lab.Text{En: "How many?", ZhTW: "幾封？"}, Files: lessonFiles("outbox"),
		Variants: []lab.Variant{{
			Name: "plain", Consumer: listener,
			Producer: func(d lab.Deps) lab.Producer { return &withOutbox{d} },
			Relay:    func(d lab.Deps) lab.Runner { return &relay{d} },
		}},
	}
}

func listener(d lab.Deps) bus.Handler {
	return (&shop.Listener{DB: d.DB, Bus: d.BusName}).Handle
}

type naive struct {
	lab.Deps
	publishFirst bool
}

func (n *naive) PlaceOrder(ctx context.Context, o shop.Order) error {
	m := shop.OrderPlaced(o, "plain")
	err := pgx.BeginFunc(ctx, n.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, o); err != nil {
			return err
		}
		if n.publishFirst {
			if err := n.Bus.Publish(ctx, m); err != nil {
				return err
			}
		}
		return n.Steps.Reach(ctx, checkpoint.BeforeCommit, o.EventID)
	})
	if err != nil || n.publishFirst {
		return err
	}
	_ = n.Bus.Publish(ctx, m) // the lesson: nobody is told
	return nil
}

type withOutbox struct{ lab.Deps }

func (w *withOutbox) PlaceOrder(ctx context.Context, o shop.Order) error {
	return pgx.BeginFunc(ctx, w.DB, func(tx pgx.Tx) error {
		if err := shop.Insert(ctx, tx, o); err != nil {
			return err
		}
		const insert = `INSERT INTO outbox (event_id, bus, payload) VALUES ($1, $2, $3)`
		if _, err := tx.Exec(ctx, insert, o.EventID, o.Bus, shop.OrderPlaced(o, "safe").Payload); err != nil {
			return err
		}
		return w.Steps.Reach(ctx, checkpoint.BeforeCommit, o.EventID)
	})
}

// relay publishes one row at a time inside its transaction.
type relay struct{ lab.Deps }

func (r *relay) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error { return r.step(ctx, tx) }); err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

func (r *relay) step(ctx context.Context, tx pgx.Tx) error {
	if open, err := r.Gate(ctx, tx); err != nil || !open {
		return fmt.Errorf("closed: %v", err)
	}
	const claim = `SELECT id, event_id::text, payload FROM outbox
		WHERE status = 'pending' AND bus = $1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`
	var id int64
	m := bus.Message{Topic: "safe"}
	if err := tx.QueryRow(ctx, claim, r.BusName).Scan(&id, &m.ID, &m.Payload); err != nil {
		return err
	}
	if err := r.Bus.Publish(ctx, m); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE outbox SET status = 'sent', sent_at = now() WHERE id = $1`, id)
	return err
}
