package main

import (
	"context"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
)

// What a lane must and must not have in its tables; $1 is the declared poison.
const (
	soakLost = `SELECT count(*) FROM orders o WHERE o.event_id <> $1
		AND NOT EXISTS (SELECT FROM emails e WHERE e.event_id = o.event_id)`
	soakTwice   = `SELECT count(*) FROM (SELECT FROM emails WHERE event_id <> $1 GROUP BY event_id HAVING count(*) > 1) twice`
	soakPhantom = `SELECT count(*) FROM emails e WHERE e.event_id <> $1
		AND NOT EXISTS (SELECT FROM orders o WHERE o.event_id = e.event_id)`
	soakStuck = `SELECT (SELECT count(*) FROM outbox WHERE status = 'failed' AND event_id <> $1) +
		(SELECT count(*) FROM dead_letters WHERE event_id <> $1)`
	soakPending  = `SELECT count(*) FROM outbox WHERE status = 'pending' AND event_id <> $1`
	soakPoison   = `SELECT count(*) FROM outbox WHERE status = 'failed' AND event_id = $1`
	soakPoisoned = `SELECT count(*) FROM orders WHERE event_id = $1`
	soakAbsorbed = `SELECT coalesce(sum(deliveries - 1), 0) FROM processed WHERE event_id <> $1`
	soakMissing  = `SELECT count(*) FROM unnest($1::uuid[]) AS told (id) WHERE NOT EXISTS (SELECT FROM orders WHERE event_id = told.id)`
)

// soakRest bounds the time to come to rest; soakQuiet is longer than any bus here takes
// to deliver again what a dead listener held.
const (
	soakRest  = 90 * time.Second
	soakQuiet = 6 * time.Second
)

// judge waits for rest and reads the tables. Orders have stopped, faults are over.
func (l *soakLane) judge() {
	eventually(l.t, soakRest, l.name+" to come to rest", func() bool {
		return l.count(soakPending) == 0 && l.backlog() == 0 && l.count(soakLost) == 0
	})
	for emails := -1; ; {
		now := pgtest.Count(l.t, l.pool, `SELECT count(*) FROM emails`)
		if now == emails {
			break
		}
		emails = now
		time.Sleep(soakQuiet) // a late repeat is what this waits for
	}
	for what, sql := range map[string]string{"lost": soakLost, "twice": soakTwice, "phantom": soakPhantom,
		"stuck": soakStuck, "pending": soakPending} {
		if n := l.count(sql); n != 0 {
			l.t.Errorf("%s: %d %s", l.name, n, what)
		}
	}
	if n := pgtest.Count(l.t, l.pool, soakMissing, l.created); n != 0 {
		l.t.Errorf("%s: %d orders that a client was told of are not there", l.name, n)
	}
	orders, poison := pgtest.Count(l.t, l.pool, `SELECT count(*) FROM orders`), l.count(soakPoison)
	if poison != l.count(soakPoisoned) || orders == 0 {
		l.t.Errorf("%s: %d orders, %d poison rows failed, want every one that was ordered", l.name, orders, poison)
	}
	l.t.Logf("%-9s %d orders (%d answered as created), %d poison, %d repeats absorbed by the inbox",
		l.name, orders, len(l.created), poison, l.count(soakAbsorbed))
}

func (l *soakLane) count(sql string) int { return pgtest.Count(l.t, l.pool, sql, l.poison) }

// backlog is what the bus holds for the listener; in memory only the tables know.
func (l *soakLane) backlog() int64 {
	if l.bus == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n, err := l.bus.(bus.Backlogger).Backlog(ctx, l.chapter.Topic, shop.Group)
	if err != nil {
		return -1
	}
	return n
}
