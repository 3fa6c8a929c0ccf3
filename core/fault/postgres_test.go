package fault_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/fault"
	"outboxplayground/infra/servers/servertest"
)

// database is a pool behind the proxy, and one that is not.
type database struct {
	proxy          *fault.Proxy
	broken, direct *pgxpool.Pool
	table          string
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	url := servertest.URL(t, "postgres")
	p, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	d := &database{proxy: p, direct: pool(t, url, nil), broken: pool(t, url, p.Dialer("db"))}
	d.table = "public.fault_" + uuid.NewString()[:8]
	d.mustExec(t, d.direct, "CREATE TABLE "+d.table+" (id text)")
	t.Cleanup(func() { d.direct.Exec(context.Background(), "DROP TABLE "+d.table) })
	d.mustExec(t, d.broken, d.insert("first"))
	return d
}

func pool(t *testing.T, url string, dial pgconn.DialFunc) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.MaxConns = 2
	if dial != nil {
		c.ConnConfig.DialFunc = dial
	}
	p, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (d *database) insert(id string) string {
	return "INSERT INTO " + d.table + " VALUES ('" + id + "')"
}

func (d *database) mustExec(t *testing.T, p *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := p.Exec(within(t, patience), sql); err != nil {
		t.Fatal(err)
	}
}

func (d *database) rows(t *testing.T, id string) (n int) {
	t.Helper()
	err := d.direct.QueryRow(within(t, patience), "SELECT count(*) FROM "+d.table+" WHERE id = $1", id).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPostgresOutage(t *testing.T) {
	d := newDatabase(t)
	f := inject(t, d.proxy, fault.Rule{Kind: fault.Outage, Role: "db"})
	eventually(t, "a dial is refused", func() bool {
		_, err := d.broken.Exec(within(t, patience), d.insert("down"))
		if err == nil {
			t.Fatal("an insert in an outage succeeded")
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if n := f.Counts(); n.Cut != 1 || n.Refused == 0 {
		t.Errorf("counts %+v", n)
	}
	f.Lift()
	d.mustExec(t, d.broken, d.insert("healed"))
	if d.rows(t, "down") != 0 || d.rows(t, "healed") != 1 {
		t.Errorf("rows: down %d, healed %d", d.rows(t, "down"), d.rows(t, "healed"))
	}
}

// The row is there although Commit failed. Do not ask pgconn.SafeToRetry about such
// an error: pgx 5.12 drops the reset that it read (MultiResultReader.NextResult
// ignores the error of its peek), reports "conn closed" instead, and calls that
// safe, as if nothing had been sent.
func TestPostgresLosesTheAnswerToItsCommit(t *testing.T) {
	d := newDatabase(t)
	f := inject(t, d.proxy, fault.Rule{Kind: fault.SwallowReplies, Role: "db", Arm: []byte("commit"), CutAfter: 20 * time.Millisecond, Once: true})
	tx, err := d.broken.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), d.insert("unknown")); err != nil {
		t.Fatal(err)
	}
	err = tx.Commit(within(t, patience))
	if err == nil {
		t.Error("the commit was answered")
	}
	t.Logf("commit: %v; pgx calls it safe to retry: %v", err, pgconn.SafeToRetry(err))
	if d.rows(t, "unknown") != 1 || f.Hits() != 1 {
		t.Errorf("rows %d, hits %d; want the commit to have happened", d.rows(t, "unknown"), f.Hits())
	}
}

func TestPostgresIsSlowed(t *testing.T) {
	d := newDatabase(t)
	const delay = 200 * time.Millisecond
	f := inject(t, d.proxy, fault.Rule{Kind: fault.Delay, Role: "db", Delay: delay})
	start := time.Now()
	d.mustExec(t, d.broken, "SELECT 1")
	if took := time.Since(start); took < delay || f.Hits() == 0 {
		t.Errorf("took %v, hits %d", took, f.Hits())
	}
}

func TestPostgresMeetsABlackHole(t *testing.T) {
	d := newDatabase(t)
	f := inject(t, d.proxy, fault.Rule{Kind: fault.Stall, Role: "db"})
	start := time.Now()
	_, err := d.broken.Exec(within(t, 300*time.Millisecond), d.insert("held"))
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > patience/2 || f.Hits() == 0 {
		t.Errorf("%v after %v, hits %d; want the deadline", err, time.Since(start), f.Hits())
	}
	if d.rows(t, "held") != 0 {
		t.Error("a held insert happened")
	}
	f.Lift()
	d.mustExec(t, d.broken, "SELECT 1")
}

// Cancelling is a second connection to wherever the first one seems to lead.
func TestPostgresQueriesCanBeCancelled(t *testing.T) {
	d := newDatabase(t)
	var pid int
	conn, err := d.broken.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(within(t, quiet), "SELECT pg_sleep(600)"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("sleep: %v; want the deadline", err)
	}
	eventually(t, "the backend is gone", func() bool {
		var n int
		err := d.direct.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid).Scan(&n)
		return err == nil && n == 0
	})
}
