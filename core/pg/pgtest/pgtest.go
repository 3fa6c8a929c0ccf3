// Package pgtest gives a test a schema of its own on the real Postgres.
package pgtest

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/pg"
	"outboxplayground/infra/servers/servertest"
)

// Schema returns a pool inside a new schema that is migrated up to a chapter's
// level, and the schema's name. Both are gone when the test ends.
func Schema(t testing.TB, chapter int) (*pgxpool.Pool, string) {
	t.Helper()
	return schemaIn(t, servertest.URL(t, "postgres"), chapter)
}

// Alone is Schema in a database of its own, for tests that look at what else goes
// on in the database: open transactions, for example.
func Alone(t testing.TB, chapter int) (*pgxpool.Pool, string) {
	t.Helper()
	return schemaIn(t, Database(t), chapter)
}

const dropLimit = 30 * time.Second

func schemaIn(t testing.TB, url string, chapter int) (*pgxpool.Pool, string) {
	t.Helper()
	name := newName("test")
	ctx := context.Background()
	if err := pg.MigratePlayground(ctx, url); err != nil {
		t.Fatal(err)
	}
	if err := pg.MigrateChapter(ctx, url, name, chapter); err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Open(url, name, pg.Options{MaxConns: 8, AppName: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A transaction that is still prepared would keep it waiting for ever.
		ctx, cancel := context.WithTimeout(ctx, dropLimit)
		defer cancel()
		drop := "DROP SCHEMA " + pgx.Identifier{name}.Sanitize() + " CASCADE"
		if _, err := pool.Exec(ctx, drop); err != nil {
			t.Errorf("the test's schema stays behind: %v", err)
		}
		pool.Close()
	})
	return pool, name
}

// Database makes a database on the shared server and returns its URL. It is gone
// when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	base, name := servertest.URL(t, "postgres"), newName("test")
	if err := admin(base, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(dropSlots(base, name), admin(base, "DROP DATABASE "+name+" WITH (FORCE)")); err != nil {
			t.Errorf("the test's database stays behind: %v", err)
		}
	})
	if u, err := url.Parse(base); err == nil && u.Scheme != "" {
		u.Path = "/" + name
		return u.String()
	}
	return base + " dbname=" + name
}

// dropSlots removes the replication slots of a database, which could not be dropped with
// one. Whoever still reads is sent away first.
func dropSlots(base, database string) error {
	const readers = `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = '`
	const slots = `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '`
	for tries := 0; ; tries++ {
		err := errors.Join(admin(base, readers+database+"'"), admin(base, slots+database+"'"))
		if err == nil || tries == 50 {
			return err
		}
		time.Sleep(20 * time.Millisecond) // a reader that was sent away goes a moment later
	}
}

func newName(kind string) string {
	return kind + "_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
}

// admin runs one statement on a connection of its own.
func admin(url, sql string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// Count returns the single number that a query yields.
func Count(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}
