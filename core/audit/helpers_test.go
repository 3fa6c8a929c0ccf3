package audit_test

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// execer is a pool, a connection or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}
