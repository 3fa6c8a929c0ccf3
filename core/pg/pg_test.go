package pg_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"outboxplayground/core/fault"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/infra/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const insertOrder = `INSERT INTO orders (event_id, user_id, items, bus) VALUES ($1, 'u', '["A"]', 'nats')`

// A COMMIT that arrives and whose answer does not: the caller must hear "unknown",
// for the order is there.
func TestLostAnswerToCommitIsUnknown(t *testing.T) {
	pool, schema := pgtest.Schema(t, 1)
	proxy, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	broken, err := pg.Open(servertest.URL(t, "postgres"), schema, pg.Options{Dial: proxy.Dialer("db")})
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	id := uuid.NewString()
	err = pgx.BeginFunc(t.Context(), &pg.Timed{DB: broken}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), insertOrder, id); err != nil {
			return err
		}
		_, err := proxy.Inject(fault.Rule{Kind: fault.SwallowReplies, Arm: []byte("commit"), CutAfter: 50 * time.Millisecond, TTL: time.Minute})
		return err
	})
	if !errors.Is(err, pg.ErrCommitUnknown) {
		t.Errorf("COMMIT without an answer: %v, want ErrCommitUnknown", err)
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM orders WHERE event_id = $1`, id); n != 1 {
		t.Errorf("%d orders: the fault did not let the COMMIT through", n)
	}
}

// What the server refuses or never saw is certain, and must not be called unknown.
func TestCertainFailuresOfACommit(t *testing.T) {
	pool, _ := pgtest.Schema(t, 1)
	id := uuid.NewString()
	aborted := pgx.BeginFunc(t.Context(), &pg.Timed{DB: pool}, func(tx pgx.Tx) error {
		for range 2 { // the second breaks UNIQUE and is swallowed: COMMIT answers ROLLBACK
			_, _ = tx.Exec(t.Context(), insertOrder, id)
		}
		return nil
	})
	if !errors.Is(aborted, pgx.ErrTxCommitRollback) || errors.Is(aborted, pg.ErrCommitUnknown) {
		t.Errorf("COMMIT of an aborted transaction: %v, want ErrTxCommitRollback", aborted)
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM orders WHERE event_id = $1`, id); n != 0 {
		t.Errorf("%d orders of an aborted transaction", n)
	}
}

// A COMMIT that could not leave has certainly not happened.
func TestACommitThatNeverLeftIsNotUnknown(t *testing.T) {
	pool, _ := pgtest.Schema(t, 1)
	for name, spoil := range map[string]func(tx pgx.Tx, cancel func()){
		"context over": func(_ pgx.Tx, cancel func()) { cancel() },
		"connection closed": func(tx pgx.Tx, _ func()) {
			_, _ = tx.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tx, err := (&pg.Timed{DB: pool}).Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			id := uuid.NewString()
			if _, err := tx.Exec(ctx, insertOrder, id); err != nil {
				t.Fatal(err)
			}
			spoil(tx, cancel)
			if err := tx.Commit(ctx); err == nil || errors.Is(err, pg.ErrCommitUnknown) {
				t.Errorf("Commit: %v, want a certain failure", err)
			}
			_ = tx.Rollback(t.Context())
			if n := pgtest.Count(t, pool, `SELECT count(*) FROM orders WHERE event_id = $1`, id); n != 0 {
				t.Errorf("%d orders", n)
			}
		})
	}
}

func TestTimedMeasuresTheTransaction(t *testing.T) {
	pool, _ := pgtest.Schema(t, 1)
	timed := &pg.Timed{DB: pool}
	err := pgx.BeginFunc(t.Context(), timed, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT pg_sleep(0.05)`)
		return err
	})
	if err != nil || timed.Spent() < 50*time.Millisecond || timed.Spent() > 10*time.Second {
		t.Errorf("Spent %v, error %v; want at least 50 ms", timed.Spent(), err)
	}
}

// A pause that has answered is final: a claim which was under way when it was asked
// for is over by then.
func TestPauseWaitsForClaimsUnderWay(t *testing.T) {
	pool, schema := pgtest.Schema(t, 3)
	gate := pg.Gate(schema)
	claiming, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer claiming.Rollback(context.Background())
	if open, err := gate(t.Context(), claiming); err != nil || !open {
		t.Fatalf("gate = %v, %v, want open", open, err)
	}
	answered := make(chan error, 1)
	go func() { answered <- pg.Pause(t.Context(), pool, schema, true) }()
	waitForLock(t, pool.QueryRow)
	select {
	case err := <-answered:
		t.Fatalf("pause answered (%v) while a claim was open", err)
	default:
	}
	if err := claiming.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		open, err := gate(t.Context(), tx)
		if open {
			t.Error("the gate is open after pause has answered")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForLock polls until a backend waits for an advisory lock.
func waitForLock(t *testing.T, query func(context.Context, string, ...any) pgx.Row) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		var waiting int
		sql := `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`
		if err := query(t.Context(), sql).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			return
		}
	}
	t.Fatal("nobody waits for the lock")
}

// Processes that start together migrate one after the other, to the level of their
// chapter and no further.
func TestMigrateTogetherAndToTheLevel(t *testing.T) {
	url := servertest.URL(t, "postgres")
	schema := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	ctx := t.Context()
	var starts sync.WaitGroup
	for range 5 {
		starts.Go(func() {
			if err := pg.MigrateChapter(ctx, url, schema, 1); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	pool, err := pg.Open(url, schema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	defer pool.Exec(context.Background(), `DROP SCHEMA `+schema+` CASCADE`)
	tables := func() int {
		return pgtest.Count(t, pool, `SELECT count(*) FROM pg_tables WHERE schemaname = $1
			AND tablename IN ('orders', 'processed', 'emails', 'outbox')`, schema)
	}
	if n := tables(); n != 3 {
		t.Errorf("level 1 has %d of the tables, want orders, processed and emails", n)
	}
	if err := pg.MigrateChapter(ctx, url, schema, 3); err != nil {
		t.Fatal(err)
	}
	if n := tables(); n != 4 {
		t.Errorf("level 3 has %d of the tables, want outbox too", n)
	}
}

func TestEveryColumnAndTableHasAComment(t *testing.T) {
	pool, schema := pgtest.Schema(t, 99)
	rows, err := pool.Query(t.Context(), `
SELECT format('%s.%s', c.relname, a.attname)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum >= 0 AND NOT a.attisdropped
WHERE c.relnamespace IN ($1::regnamespace, 'playground'::regnamespace)
	AND c.relkind = 'r' AND c.relname <> 'goose_db_version'
	AND col_description(c.oid, a.attnum) IS NULL
UNION ALL
SELECT c.relname::text FROM pg_class c
WHERE c.relnamespace IN ($1::regnamespace, 'playground'::regnamespace)
	AND c.relkind = 'r' AND c.relname <> 'goose_db_version' AND obj_description(c.oid) IS NULL`, schema)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(bare) > 0 {
		t.Errorf("without a comment: %v", bare)
	}
}

func TestUnavailable(t *testing.T) {
	refused, err := pg.Open("postgres://playground@127.0.0.1:1/postgres", "ch01", pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if err := refused.Ping(t.Context()); !pg.Unavailable(err) {
		t.Errorf("a refused connection counts as available: %v", err)
	}
	if pg.Unavailable(nil) || pg.Unavailable(errors.New("duplicate key")) {
		t.Error("an ordinary error counts as unavailable")
	}
	if !pg.Unavailable(net.ErrClosed) {
		t.Error("a closed connection counts as available")
	}
}

func TestAnUnreadableURLKeepsItsPassword(t *testing.T) {
	_, err := pg.Open("postgres://user:s3cret@host:notaport/db", "ch01", pg.Options{})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error is %v; want one without the password", err)
	}
}
