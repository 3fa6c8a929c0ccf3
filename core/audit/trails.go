package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Each query reads one table as a whole; the first column is the event.
const (
	allOrders    = `SELECT event_id::text, id, user_id, items, bus, created_at FROM orders`
	allOutbox    = `SELECT event_id::text, id, bus, topic, status, attempts, last_error, created_at, sent_at FROM outbox`
	allProcessed = `SELECT event_id::text, consumer, bus, at, deliveries FROM processed ORDER BY id`
	allLetters   = `SELECT event_id::text, id, consumer, bus, status, reason, attempts, first_at, failed_at
		FROM dead_letters WHERE event_id IS NOT NULL ORDER BY id`
	allEmails = `SELECT event_id::text, recipient, bus, sent_at FROM emails ORDER BY id`
)

// Trails reads the trail of every event of a schema, in one snapshot, by event id.
// over says that nothing can come any more: then what is missing is lost and an
// effect without an order is a phantom.
func Trails(ctx context.Context, s Source, over bool) (map[string]Trail, error) {
	found := map[string]*Trail{}
	var now time.Time
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.DB, snapshot, func(tx pgx.Tx) error {
		if err := s.collect(ctx, tx, found); err != nil {
			return err
		}
		return tx.QueryRow(ctx, readClock).Scan(&now)
	})
	if err != nil {
		return nil, fmt.Errorf("audit: trails: %w", err)
	}
	trails := make(map[string]Trail, len(found))
	for id, t := range found {
		t.AsOf, t.Bus = now.UTC(), t.whichBus()
		t.judge(witness{over: over})
		trails[id] = *t
	}
	return trails, nil
}

func (s Source) collect(ctx context.Context, tx pgx.Tx, found map[string]*Trail) error {
	of := func(id string) *Trail {
		if found[id] == nil {
			found[id] = blank(s.Chapter, "", id)
			found[id].log = s.Log
		}
		return found[id]
	}
	if err := s.collectInDoubt(ctx, tx, of); err != nil {
		return err
	}
	var id string
	var o Order
	err := each(ctx, tx, allOrders, []any{&id, &o.ID, &o.UserID, &o.Items, &o.Bus, &o.CreatedAt}, func() {
		row := o
		row.Items = append([]string(nil), o.Items...)
		of(id).Order = &row
	})
	if err != nil {
		return err
	}
	if s.Outbox {
		var x Outbox
		err := each(ctx, tx, allOutbox, []any{&id, &x.ID, &x.Bus, &x.Topic, &x.Status, &x.Attempts, &x.LastError, &x.CreatedAt, &x.SentAt}, func() {
			row := x
			of(id).Outbox = &row
			x = Outbox{}
		})
		if err != nil {
			return err
		}
	}
	var p Delivery
	err = each(ctx, tx, allProcessed, []any{&id, &p.Consumer, &p.Bus, &p.At, &p.Deliveries}, func() {
		of(id).Processed = append(of(id).Processed, p)
	})
	if err != nil {
		return err
	}
	if s.DeadLetters {
		var d DeadLetter
		err := each(ctx, tx, allLetters, []any{&id, &d.ID, &d.Consumer, &d.Bus, &d.Status, &d.Reason, &d.Attempts, &d.FirstAt, &d.FailedAt}, func() {
			of(id).DeadLetters = append(of(id).DeadLetters, d)
		})
		if err != nil {
			return err
		}
	}
	var e Email
	return each(ctx, tx, allEmails, []any{&id, &e.Recipient, &e.Bus, &e.SentAt}, func() {
		of(id).Emails = append(of(id).Emails, e)
	})
}

// each scans row after row into the same places.
func each(ctx context.Context, tx pgx.Tx, sql string, into []any, row func()) error {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error { row(); return nil })
	return err
}

// blank is the trail of an event before anything is read.
func blank(chapter int, bus, id string) *Trail {
	return &Trail{EventID: id, Chapter: chapter, Bus: bus,
		Processed: []Delivery{}, Emails: []Email{}, DeadLetters: []DeadLetter{}}
}

// None is the trail of an event that left no row: its order was refused, or its
// producer died before the commit.
func None(chapter int, bus, id string) Trail {
	t := blank(chapter, bus, id)
	t.Valid, t.Why = True, "no row tells of this event: nothing was kept, and nothing was sent"
	return *t
}
