package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/pg"
)

// inSchema gives a run a schema of its own, gone afterwards.
func inSchema(ctx context.Context, url, name string, conns int32, do func(*pgxpool.Pool) error) (err error) {
	pool, err := pg.Open(url, name, pg.Options{MaxConns: conns, AppName: name})
	if err != nil {
		return err
	}
	defer pool.Close()
	quoted := pgx.Identifier{name}.Sanitize()
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+quoted); err != nil {
		return err
	}
	defer func() {
		_, dropped := pool.Exec(context.WithoutCancel(ctx), "DROP SCHEMA "+quoted+" CASCADE")
		err = errors.Join(err, dropped)
	}()
	return do(pool)
}

// timeBox ends a run that does not get to its end.
const timeBox = 2 * time.Minute

// until asks the table every few milliseconds whether the query yields true.
func until(ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, timeBox)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var done bool
		if err := pool.QueryRow(ctx, sql, args...).Scan(&done); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("not done after " + timeBox.String())
		case <-tick.C:
		}
	}
}
