// Package pgtest gives a test a schema of its own on the real Postgres.
package pgtest

import (
	"context"
	"strings"
	"testing"

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
	url := servertest.URL(t, "postgres")
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
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
		drop := "DROP SCHEMA " + pgx.Identifier{name}.Sanitize() + " CASCADE"
		if _, err := pool.Exec(ctx, drop); err != nil {
			t.Errorf("the test's schema stays behind: %v", err)
		}
		pool.Close()
	})
	return pool, name
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
