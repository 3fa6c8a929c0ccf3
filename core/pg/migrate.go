package pg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"outboxplayground/migrations"
)

// PlaygroundSchema keeps what outlives a chapter.
const PlaygroundSchema = "playground"

// lockSchema makes processes that start together migrate one after the other.
const lockSchema = `SELECT pg_advisory_lock(hashtext('outbox-playground migrate'), hashtext($1))`

// MigratePlayground builds or updates the playground schema.
func MigratePlayground(ctx context.Context, url string) error {
	return migrate(ctx, url, PlaygroundSchema, migrations.Playground, "playground", goose.MaxVersion)
}

// MigrateChapter builds or updates a schema up to the level of a chapter.
func MigrateChapter(ctx context.Context, url, schema string, chapter int) error {
	return migrate(ctx, url, schema, migrations.Chapters, "chapters", migrations.Level(chapter))
}

// migrate applies files in schema, whose own goose table remembers how far it is.
func migrate(ctx context.Context, url, schema string, files fs.FS, dir string, level int64) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return parseError(err)
	}
	inSchema(cfg, schema, Options{AppName: "outbox-playground migrate"})
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", schema, err)
	}
	// Closing the connection gives the lock back, also when ctx has ended.
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, lockSchema, schema); err != nil {
		return fmt.Errorf("migrate %s: lock: %w", schema, err)
	}
	create := "CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{schema}.Sanitize()
	if _, err := conn.Exec(ctx, create); err != nil {
		return fmt.Errorf("migrate %s: %w", schema, err)
	}
	if err := up(ctx, cfg, files, dir, level); err != nil {
		return fmt.Errorf("migrate %s: %w", schema, err)
	}
	return analyze(ctx, conn, schema)
}

func up(ctx context.Context, cfg *pgx.ConnConfig, files fs.FS, dir string, level int64) error {
	sub, err := fs.Sub(files, dir)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	// A file may come between two that were applied long ago: each chapter has numbers of its own.
	p, err := goose.NewProvider(goose.DialectPostgres, db, sub, goose.WithAllowOutofOrder(true))
	if err != nil {
		return err
	}
	_, err = p.UpTo(ctx, level)
	return err
}

// tablesOf lists what ANALYZE shall look at: without a schema name it would read
// the whole database.
const tablesOf = `SELECT tablename FROM pg_tables WHERE schemaname = $1`

// analyze gives the planner statistics at once. Until the first autovacuum a new
// table has none, and a claim may choose a plan that sorts every row. A table that
// somebody drops meanwhile needs none.
func analyze(ctx context.Context, conn *pgx.Conn, schema string) error {
	rows, err := conn.Query(ctx, tablesOf, schema)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return analyzeEach(ctx, conn, schema, tables)
}

// undefinedTable is SQLSTATE 42P01 (PostgreSQL manual, appendix A).
const undefinedTable = "42P01"

func analyzeEach(ctx context.Context, conn *pgx.Conn, schema string, tables []string) error {
	for _, t := range tables {
		_, err := conn.Exec(ctx, "ANALYZE "+pgx.Identifier{schema, t}.Sanitize())
		if said := (*pgconn.PgError)(nil); errors.As(err, &said) && said.Code == undefinedTable {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
