package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/pg"
)

// exampleDB is a pool in an empty schema of its own, as the migrations leave it.
func exampleDB(ctx context.Context) (pool *pgxpool.Pool, drop func()) {
	url, schema := os.Getenv("DATABASE_URL"), fmt.Sprintf("test_inbox_%d", os.Getpid())
	if err := pg.MigrateChapter(ctx, url, schema, 6); err != nil {
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

// The effect writes through the transaction it is given. The broker delivers the event
// three times.
func ExampleOnce_Handle() {
	ctx := context.Background()
	db, drop := exampleDB(ctx)
	defer drop()

	once := &inbox.Once{DB: db, Consumer: "mailer", Bus: "nats",
		Effect: func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
			fmt.Println("email for", string(m.Payload))
			_, err := tx.Exec(ctx, `INSERT INTO emails (event_id, recipient, bus) VALUES ($1, 'u1', 'nats')`, m.ID)
			return err
		}}
	m := bus.Message{ID: "0b54dd0c-0000-4000-8000-000000000001", Topic: "safe", Payload: []byte(`{"user_id": "u1"}`)}
	for range 3 {
		fmt.Println(once.Handle(ctx, m)) // what bus.Subscribe calls; nil acknowledges
	}
	// Output:
	// email for {"user_id": "u1"}
	// <nil>
	// <nil>
	// <nil>
}

// What the effect cannot handle is kept, and handled when somebody has mended it.
func ExampleReplay() {
	ctx := context.Background()
	db, drop := exampleDB(ctx)
	defer drop()

	full := true
	once := &inbox.Once{DB: db, Consumer: "mailer", Bus: "nats",
		Config: inbox.Config{Attempts: 3, FirstDelay: time.Millisecond},
		Effect: func(context.Context, pgx.Tx, bus.Message) error {
			if full {
				return errors.New("mailbox full")
			}
			return nil
		}}
	m := bus.Message{ID: "0b54dd0c-0000-4000-8000-000000000002", Topic: "safe", Payload: []byte(`{}`)}
	fmt.Println(once.Handle(ctx, m))
	letters, err := inbox.Letters(ctx, db, inbox.Filter{Reason: "full"})
	if err != nil || len(letters) != 1 {
		log.Fatal(len(letters), err)
	}
	fmt.Println(letters[0].Status, letters[0].Attempts, letters[0].Reason)

	full = false
	fmt.Println(inbox.Replay(ctx, db, letters[0].ID, "anna"))
	fmt.Println(inbox.Replay(ctx, db, letters[0].ID, "bert"))
	fmt.Println(once.Replays(ctx)) // a program has Run beside its subscription
	stats, err := inbox.ReadStats(ctx, db)
	fmt.Println(stats.Dead, "dead", stats.Replayed, "replayed", err)
	// Output:
	// <nil>
	// dead 3 mailbox full
	// <nil>
	// dead letter 1: inbox: the dead letter was replayed already, or its replay is under way
	// <nil>
	// 0 dead 1 replayed <nil>
}
