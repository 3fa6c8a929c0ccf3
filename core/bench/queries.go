package bench

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// queryCount counts the statements that a pool sends, by pgx's own hooks: what the
// worker under test says of itself is not asked.
type queryCount struct{ n atomic.Int64 }

var (
	_ pgx.QueryTracer = (*queryCount)(nil)
	_ pgx.BatchTracer = (*queryCount)(nil)
)

// TraceQueryStart implements pgx.QueryTracer.
func (q *queryCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.n.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (q *queryCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer: its queries are counted, not the batch.
func (q *queryCount) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (q *queryCount) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) { q.n.Add(1) }

// TraceBatchEnd implements pgx.BatchTracer.
func (q *queryCount) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// counted is a pool in the site's schema whose statements are counted.
func (s *site) counted(ctx context.Context) (*pgxpool.Pool, *queryCount, error) {
	q, cfg := &queryCount{}, s.pool.Config()
	cfg.ConnConfig.Tracer = q
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	return pool, q, err
}

// rate is how many statements a second are sent from now on for d.
func (q *queryCount) rate(ctx context.Context, d time.Duration) (float64, error) {
	before, begun := q.n.Load(), time.Now()
	if err := sleepUntil(ctx, begun.Add(d)); err != nil {
		return 0, err
	}
	return float64(q.n.Load()-before) / time.Since(begun).Seconds(), nil
}

// settled waits until no row is pending: then the worker is at rest. It gives up
// after a while, and the event of a row that stays pending counts as lost.
func (s *site) settled(ctx context.Context) error {
	const sql = `SELECT EXISTS (SELECT FROM outbox WHERE status = 'pending')`
	for begun := time.Now(); time.Since(begun) < long; {
		var pending bool
		if err := s.pool.QueryRow(ctx, sql).Scan(&pending); err != nil || !pending {
			return err
		}
		if err := sleepUntil(ctx, time.Now().Add(glance)); err != nil {
			return err
		}
	}
	return nil
}
