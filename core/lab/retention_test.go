package lab

import (
	"context"
	"sync"
	"testing"
	"time"

	"outboxplayground/core/pg/pgtest"
)

// fillOld writes, an hour ago, n rows that were sent and one of each that must stay,
// beside the record of a listener, and one row sent just now.
const fillOld = `
WITH old AS (
	INSERT INTO outbox (event_id, bus, payload, created_at, status, sent_at)
	SELECT gen_random_uuid(), 'nats', '{}', now() - interval '2 hours', 'sent', now() - interval '1 hour'
	FROM generate_series(1, 2500) RETURNING event_id
), kept AS (
	INSERT INTO outbox (event_id, bus, payload, created_at, status, sent_at) VALUES
		(gen_random_uuid(), 'nats', '{}', now() - interval '2 hours', 'pending', NULL),
		(gen_random_uuid(), 'nats', '{}', now() - interval '2 hours', 'failed', NULL),
		(gen_random_uuid(), 'nats', '{}', now(), 'sent', now())
)
INSERT INTO processed (event_id, consumer, bus) SELECT event_id, 'mail', 'nats' FROM old`

// Case 51: where the relay runs, sent rows go when their time is over, also with two
// processes at it; nothing else goes. Without Keep, and without the relay, all stays.
func TestSentRowsArePurged(t *testing.T) {
	db := pgtest.Database(t)
	chapters := []Chapter{{Number: 3, Outbox: true, Variants: []Variant{{Name: "a"}}}, {Number: 6, Outbox: true, Variants: []Variant{{Name: "b"}}}}
	live := func(relay bool, keep time.Duration) *Live {
		l, err := NewLive(t.Context(), LiveConfig{Chapters: chapters, DatabaseURL: db, Relay: relay, Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		return l
	}
	two := []*Live{live(true, 30*time.Minute), live(true, 30*time.Minute)}
	idle := []*Live{live(false, time.Second), live(true, 0)}
	count := func(chapter int, sql string) int { return pgtest.Count(t, two[0].DB(chapter), sql) }
	for _, c := range chapters {
		if _, err := two[0].DB(c.Number).Exec(t.Context(), fillOld); err != nil {
			t.Fatal(err)
		}
	}
	runAll(t, idle, func() { time.Sleep(300 * time.Millisecond) }) // an absence cannot be waited for
	if n := count(6, `SELECT count(*) FROM outbox`); n != 2503 {
		t.Errorf("%d rows are left where nobody was to purge, want 2503", n)
	}
	runAll(t, two, func() {
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if count(3, `SELECT count(*) FROM outbox`)+count(6, `SELECT count(*) FROM outbox`) == 6 {
				return
			}
		}
	})
	for _, c := range chapters {
		if n := count(c.Number, `SELECT count(DISTINCT status) FROM outbox`); n != 3 || count(c.Number, `SELECT count(*) FROM outbox`) != 3 {
			t.Errorf("chapter %d: %d kinds of rows are left of the three that must stay", c.Number, n)
		}
		if n := count(c.Number, `SELECT count(*) FROM processed`); n != 2500 {
			t.Errorf("chapter %d: %d records of the listener are left, want all 2500", c.Number, n)
		}
	}
}

// runAll runs the lives while the test does something.
func runAll(t *testing.T, lives []*Live, while func()) {
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, l := range lives {
		all.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	while()
	stop()
	all.Wait()
}
