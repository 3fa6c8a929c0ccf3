package outbox_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop/shoptest"
)

// exampleDB is a pool in an empty schema of its own, as the migrations leave it.
func exampleDB(ctx context.Context) (pool *pgxpool.Pool, drop func()) {
	url, schema := os.Getenv("DATABASE_URL"), fmt.Sprintf("test_example_%d", os.Getpid())
	if err := pg.MigrateChapter(ctx, url, schema, 5); err != nil {
		log.Fatal(err)
	}
	pool, err := pg.Open(url, schema, pg.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return pool, func() {
		if _, err := pool.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			log.Print(err)
		}
		pool.Close()
	}
}

// An order and its event in one transaction: both or neither.
func ExampleWrite() {
	ctx := context.Background()
	db, drop := exampleDB(ctx)
	defer drop()

	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO orders (event_id, user_id, items, bus)
			VALUES ('0b54dd0c-0000-4000-8000-000000000001', 'u1', '["A"]', 'nats')`)
		if err != nil {
			return err
		}
		return outbox.Write(ctx, tx, "nats", bus.Message{
			ID:      "0b54dd0c-0000-4000-8000-000000000001",
			Topic:   "safe",
			Key:     "u1",
			Payload: []byte(`{"user_id": "u1"}`),
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	stats, err := outbox.ReadStats(ctx, db)
	fmt.Println(stats.Pending, "pending", err)
	// Output: 1 pending <nil>
}

// The same as one statement, which is a transaction by itself: one round trip in
// place of four. Every column that is left out has its default.
func ExampleWrite_oneStatement() {
	ctx := context.Background()
	db, drop := exampleDB(ctx)
	defer drop()

	const placeOrder = `
WITH placed AS (
	INSERT INTO orders (event_id, user_id, items, bus) VALUES ($1, $2, $3, $4)
	RETURNING event_id, user_id, bus
)
INSERT INTO outbox (event_id, bus, topic, key, payload)
SELECT event_id, bus, 'safe', user_id, $5 FROM placed`
	_, err := db.Exec(ctx, placeOrder,
		"0b54dd0c-0000-4000-8000-000000000002", "u1", `["A"]`, "nats", `{"user_id": "u1"}`)
	if err != nil {
		log.Fatal(err)
	}
	stats, err := outbox.ReadStats(ctx, db)
	fmt.Println(stats.Pending, "pending", err)
	// Output: 1 pending <nil>
}

// A relay, step by step. A program calls Run, which does the same in a loop.
func ExampleRelay_Step() {
	ctx := context.Background()
	db, drop := exampleDB(ctx)
	defer drop()
	exampleEvents(ctx, db, 3)

	broker := &shoptest.Bus{} // a double; yours is a driver
	relay, err := outbox.NewRelay(db, broker, "nats", outbox.Config{Batch: 2})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		r, err := relay.Step(ctx)
		fmt.Println("claimed", r.Claimed, "sent", r.Sent, "next in", r.Next, err)
	}
	// Output:
	// claimed 2 sent 2 next in 0s <nil>
	// claimed 1 sent 1 next in 500ms <nil>
	// claimed 0 sent 0 next in 500ms <nil>
}

// What a program does with a relay: Run in one goroutine for each bus, Wake after a
// commit of its own, and wait for Run when it ends.
func ExampleRelay_Run() {
	ctx := context.Background()
	db, drop := exampleDB(ctx)
	defer drop()

	sent := make(chan bus.Message, 1)
	broker := &shoptest.Bus{Fail: func(m bus.Message) error { sent <- m; return nil }}
	relay, err := outbox.NewRelay(db, broker, "nats", outbox.Config{Poll: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- relay.Run(running) }()

	exampleEvents(ctx, db, 1)
	relay.Wake()
	fmt.Println("sent", (<-sent).Topic)
	stop()
	fmt.Println("stopped", <-done)
	stats, err := outbox.ReadStats(ctx, db)
	fmt.Println(stats.Sent, "marked", err)
	// Output:
	// sent safe
	// stopped <nil>
	// 1 marked <nil>
}

// After an outage has been mended, everything that was given up because of it.
func ExampleRetryAll() {
	ctx := context.Background()
	db, drop := exampleDB(ctx)
	defer drop()
	exampleEvents(ctx, db, 2)
	if _, err := db.Exec(ctx, `UPDATE outbox SET status = 'failed', attempts = 5, last_error = 'connection refused'`); err != nil {
		log.Fatal(err)
	}

	n, err := outbox.RetryAll(ctx, db, outbox.Filter{Bus: "nats", Error: "refused"}, "Mei")
	fmt.Println(n, "pending again", err)
	// Output: 2 pending again <nil>
}

func ExampleBackoff() {
	b := outbox.Backoff{Base: 250 * time.Millisecond, Max: 4 * time.Second}
	for n := 1; n <= 6; n++ {
		fmt.Print(b.Delay(n), " ")
	}
	// Output: 250ms 500ms 1s 2s 4s 4s
}

func exampleEvents(ctx context.Context, db *pgxpool.Pool, n int) {
	const some = `INSERT INTO outbox (event_id, bus, payload) SELECT gen_random_uuid(), 'nats', '{}' FROM generate_series(1, $1::int)`
	if _, err := db.Exec(ctx, some, n); err != nil {
		log.Fatal(err)
	}
}
