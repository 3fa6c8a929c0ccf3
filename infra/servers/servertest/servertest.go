// Package servertest gives tests their servers: shared ones that ./infra/test has
// started, by URL, and private ones that a test may kill.
package servertest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"outboxplayground/infra/servers"
)

// URL returns the address of a shared server from DATABASE_URL, RABBITMQ_URL,
// KAFKA_BROKERS, NATS_URL or REDIS_URL. Where it is not set, the test is skipped
// with the reason; with CI=true it fails.
func URL(t testing.TB, name string) string {
	t.Helper()
	variable := servers.Variable(name)
	url := os.Getenv(variable)
	if url == "" {
		lack(t, "needs %s: run ./infra/test, or set %s", name, variable)
	}
	return url
}

// startLimit is generous: a Java server on two busy cores.
const startLimit = 2 * time.Minute

// Start starts a private server and stops it when the test ends. Where this
// machine cannot run it, the test is skipped with the reason; with CI=true it fails.
func Start(t testing.TB, name string, o servers.Options) *servers.Server {
	t.Helper()
	return started(t, name, func(ctx context.Context) (*servers.Server, error) { return servers.Start(ctx, name, o) })
}

// PgBouncer is Start for a pooler in front of a PostgreSQL.
func PgBouncer(t testing.TB, upstream, mode string) *servers.Server {
	t.Helper()
	return started(t, "pgbouncer", func(ctx context.Context) (*servers.Server, error) {
		return servers.StartPgBouncer(ctx, upstream, mode, servers.Options{})
	})
}

func started(t testing.TB, name string, start func(context.Context) (*servers.Server, error)) *servers.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	s, err := start(ctx)
	var gone *servers.Missing
	switch {
	case errors.As(err, &gone):
		lack(t, "%v (./infra/test installs it)", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stopping %s: %v", name, err)
		}
	})
	t.Logf("%s: %s %s at %s, up in %v", s.Name, s.Mode, s.Version, s.Place(), s.Took.Round(time.Millisecond))
	return s
}

func lack(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
