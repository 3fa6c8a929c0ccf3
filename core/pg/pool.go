// Package pg opens pools whose connections work inside one schema, applies the
// migrations to that schema, and says precisely what a failed COMMIT means.
package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options tune a pool. The zero value is usable.
type Options struct {
	// MaxConns bounds the pool. Default: 4, because a playground opens many.
	MaxConns int32
	// AppName is shown in pg_stat_activity. Default: outbox-playground.
	AppName string
	// Dial opens the connections; a fault proxy puts itself there. Default: pgx's own.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// connectTimeout keeps a request from hanging on a database that is not there.
const connectTimeout = 3 * time.Second

// Open returns a pool whose unqualified names resolve in schema. It connects
// lazily: an unreachable server shows at the first query, an unusable URL now.
func Open(url, schema string, o Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, parseError(err)
	}
	cfg.MaxConns = 4
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	cfg.MaxConnIdleTime = time.Minute
	inSchema(cfg.ConnConfig, schema, o)
	// A background context: the pool belongs to whoever calls Close, not to the
	// request that happened to open it.
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

// ConnConfig returns how to open one connection that works in schema, outside every
// pool: for LISTEN, or with RuntimeParams["replication"] = "database" for the log.
func ConnConfig(url, schema string, o Options) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, parseError(err)
	}
	inSchema(cfg, schema, o)
	return cfg, nil
}

// inSchema makes a connection work in schema, whatever the URL says.
func inSchema(cfg *pgx.ConnConfig, schema string, o Options) {
	cfg.ConnectTimeout = connectTimeout
	cfg.RuntimeParams["search_path"] = pgx.Identifier{schema}.Sanitize()
	cfg.RuntimeParams["application_name"] = "outbox-playground"
	if o.AppName != "" {
		cfg.RuntimeParams["application_name"] = o.AppName
	}
	if o.Dial != nil {
		cfg.DialFunc = o.Dial
	}
}

// parseError keeps the URL, which may hold a password, out of the message. pgx
// redacts what it can parse, but not a URL that it cannot.
func parseError(error) error {
	return errors.New("DATABASE_URL cannot be read; it should look like postgres://user@host:5432/name")
}

// Unavailable tells whether err means that the database could not be reached or
// broke off, as opposed to having refused the statement.
func Unavailable(err error) bool {
	var connect *pgconn.ConnectError
	var said *pgconn.PgError
	switch {
	case err == nil:
		return false
	case errors.As(err, &connect):
		return true
	case errors.As(err, &said):
		// 08 connection, 57P operator intervention, 53300 too many connections.
		return strings.HasPrefix(said.Code, "08") || strings.HasPrefix(said.Code, "57P") || said.Code == "53300"
	}
	var network net.Error
	return pgconn.SafeToRetry(err) || pgconn.Timeout(err) || errors.As(err, &network) ||
		errors.Is(err, net.ErrClosed) || isBroken(err)
}

// Schema returns the name of the schema of an interactive chapter.
func Schema(chapter int) string { return fmt.Sprintf("ch%02d", chapter) }
