package prepared_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/prepared"
)

// prepare leaves a transaction prepared that has locked the customer u1.
func prepare(t *testing.T, pool *pgxpool.Pool, name string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`INSERT INTO customers VALUES ('u1', 1)`, `PREPARE TRANSACTION ` + prepared.Quote(name)} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	_ = tx.Rollback(t.Context()) // only gives the connection back
	t.Cleanup(func() { _ = prepared.Rollback(context.Background(), pool, name) })
}

func TestListedAndEndedOnce(t *testing.T) {
	pool, schema := pgtest.Schema(t, 9)
	id := uuid.NewString()
	prepare(t, pool, prepared.Name(schema, id))
	waits := make(chan error, 1)
	go func() { // waits for the row of the customer
		_, err := pool.Exec(context.Background(), `INSERT INTO customers VALUES ('u1', 1)`)
		waits <- err
	}()
	var found prepared.Transaction
	for deadline := time.Now().Add(10 * time.Second); found.Waiting == 0; time.Sleep(5 * time.Millisecond) {
		var err error
		if found, err = prepared.Find(t.Context(), pool, schema, id); err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v: want one that waits", found, err)
		}
	}
	if found.EventID != id || found.GID != schema+"."+id || found.Since.IsZero() || found.AgeMS < 0 || found.Behind < 1 {
		t.Errorf("%+v", found)
	}
	if all, err := prepared.List(t.Context(), pool, schema[:len(schema)-1]); err != nil || len(all) != 0 {
		t.Errorf("a schema whose name begins the same has %v, %v", all, err)
	}
	if err := prepared.Commit(t.Context(), pool, found.GID); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err == nil {
		t.Error("who waited did not see the committed row")
	}
	for _, again := range []error{
		prepared.Commit(t.Context(), pool, found.GID), prepared.Rollback(t.Context(), pool, found.GID),
	} {
		if !errors.Is(again, prepared.ErrUnknown) {
			t.Errorf("a second word: %v, want ErrUnknown", again)
		}
	}
	if _, err := prepared.Find(t.Context(), pool, schema, id); !errors.Is(err, prepared.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
}

// A name is a literal in the statement, whatever it holds.
func TestANameIsQuoted(t *testing.T) {
	pool, schema := pgtest.Schema(t, 9)
	name := prepared.Name(schema, `it's; DROP TABLE orders --`)
	prepare(t, pool, name)
	if err := prepared.Rollback(t.Context(), pool, name); err != nil {
		t.Error(err)
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM customers`); n != 0 {
		t.Errorf("%d customers after the rollback", n)
	}
}

func TestInDoubtIsACommitUnknown(t *testing.T) {
	if !errors.Is(prepared.ErrInDoubt, pg.ErrCommitUnknown) {
		t.Error("who knows chapter 1's answer to a lost COMMIT does not know this one")
	}
	pool, _ := pgtest.Schema(t, 9)
	if n, err := prepared.Room(t.Context(), pool); err != nil || n < 1 {
		t.Errorf("room for %d, %v", n, err)
	}
}
