package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
	"outboxplayground/core/inbox"
	"outboxplayground/core/pg/pgtest"
)

// decode is an effect that reads the payload as a stream.
func decode(_ context.Context, _ pgx.Tx, m bus.Message) error {
	return json.NewDecoder(bytes.NewReader(m.Payload)).Decode(&struct{}{})
}

// executes is an effect of one or more statements.
func executes(sql string) inbox.Effect {
	return func(ctx context.Context, tx pgx.Tx, _ bus.Message) error {
		_, err := tx.Exec(ctx, sql)
		return err
	}
}

const terminate = `PERFORM pg_terminate_backend(pg_backend_pid());`

// atCommit has COMMIT execute a statement, in a deferred trigger. It leaves nothing.
func atCommit(statement string) inbox.Effect {
	return executes(`CREATE TEMP TABLE late (n INT) ON COMMIT DROP;
		CREATE FUNCTION pg_temp.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + statement + ` RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION pg_temp.late();
		INSERT INTO late VALUES (1)`)
}

// dawdle leaves its transaction idle for longer than the server allows.
func dawdle(ctx context.Context, tx pgx.Tx, _ bus.Message) error {
	if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = '10ms'`); err != nil {
		return err
	}
	bus.Pause(ctx, 150*time.Millisecond)
	return nil
}

// Errors that look like an outage and come from elsewhere: the message is given up
// like any other, and nothing behind it waits for ever.
func TestOnlyTheTransactionsConnectionSpeaksForTheDatabase(t *testing.T) {
	pool := schema(t)
	for _, tt := range []struct {
		name, payload string
		effect        inbox.Effect
	}{
		{"an empty body: io.EOF", "", decode},
		{"half a body: io.ErrUnexpectedEOF", `{"a":`, decode},
		{"another server is away", "", func(ctx context.Context, _ pgx.Tx, _ bus.Message) error {
			_, err := pgx.Connect(ctx, "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable")
			return err
		}},
		{"a foreign server is away", "", executes(`DO $$ BEGIN RAISE 'away' USING ERRCODE = '08001'; END $$`)},
		{"a foreign server at commit", "", atCommit(`RAISE 'away' USING ERRCODE = '08001';`)},
		{"temp_file_limit", "", executes(`DO $$ BEGIN RAISE 'too large' USING ERRCODE = '53400'; END $$`)},
		{"the server's limit for idle transactions", "", func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
			return errors.Join(dawdle(ctx, tx, m), email(ctx, tx, m))
		}},
		{"the same limit at commit", "", dawdle},
		{"a timeout of its own", "", func(ctx context.Context, tx pgx.Tx, _ bus.Message) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			_, err := tx.Exec(ctx, `SELECT pg_sleep(3600)`)
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, m := once(pool, tt.effect), message()
			o.Config.Attempts = 2
			m.Payload = []byte(tt.payload)
			handle(t, o, m)
			if n := pgtest.Count(t, pool, `SELECT coalesce(sum(attempts), 0) FROM dead_letters WHERE event_id = $1`, m.ID); n != 2 {
				t.Errorf("the letter stands for %d attempts, want 2", n)
			}
		})
	}
}

// The session that ends under the effect or under COMMIT is the database's doing.
func TestASessionThatEndsSpendsNoAttempt(t *testing.T) {
	pool := schema(t)
	for name, effect := range map[string]inbox.Effect{
		"under the effect": executes(`DO $$ BEGIN ` + terminate + ` END $$`), "under commit": atCommit(terminate),
	} {
		o, m := once(pool, effect), message()
		o.Config.Attempts = 1
		for range 2 {
			if err := o.Handle(t.Context(), m); err == nil {
				t.Errorf("%s: acknowledged without its effect", name)
			}
		}
	}
	counted(t, pool, 0, 0, 0)
}

// A table that is locked for all attempts makes a letter: the database is there.
func TestALockedTableSpendsAttempts(t *testing.T) {
	pool := schema(t)
	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.Background()) }()
	if _, err := lock.Exec(t.Context(), `LOCK TABLE emails`); err != nil {
		t.Fatal(err)
	}
	o, m := once(pool, email), message()
	o.Config.Timeout, o.Config.Attempts = 300*time.Millisecond, 2
	until(t, "the message is given up", func() bool { return o.Handle(t.Context(), m) == nil })
	one(t, pool, inbox.Dead)
}

// The network stalls while the effect works elsewhere, and the subscription ends:
// the rollback gets no answer, and nobody waits for it longer than its second.
func TestAStalledRollbackDoesNotHoldHandle(t *testing.T) {
	proxy, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	pool := altered(t, schema(t), func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = proxy.Dialer("database") })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stalled := make(chan *fault.Injected, 1)
	o := once(pool, func(context.Context, pgx.Tx, bus.Message) error {
		stall, err := proxy.Inject(fault.Rule{Kind: fault.Stall, TTL: time.Minute})
		stalled <- stall
		stop()
		return errors.Join(errRefused, err)
	})
	done := make(chan error, 1)
	go func() { done <- o.Handle(ctx, message()) }()
	stall := <-stalled
	defer stall.Lift() // before the pool is closed
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the reason of the stop", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Handle waits for the rollback's answer")
		stall.Lift()
		<-done
	}
}

// altered returns another pool to the same schema.
func altered(t *testing.T, pool *pgxpool.Pool, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config()
	change(cfg)
	other, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

// A URL may choose how pgx speaks to the server, for a pooler in between: letters and
// replays are the same to the letter.
func TestLettersOverEveryProtocol(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			pool := altered(t, schema(t), func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
			f := &fails{err: errRefused}
			o, id, m := dead(t, pool, f)
			handle(t, o, bus.Message{ID: "no id", Payload: []byte("\xff\x00'")})
			replay := func() {
				if err := errors.Join(inbox.Replay(t.Context(), pool, id, "anna"), o.Replays(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			replay()
			if l := letters(t, pool, inbox.Filter{Reason: "refuses"}); len(l) != 1 || l[0].Attempts != 10 ||
				l[0].Headers["trace"] != "t1" || string(l[0].Payload) != string(m.Payload) {
				t.Errorf("%+v, want %+v after ten attempts", l, m)
			}
			f.mended.Store(true)
			replay()
			one(t, pool, inbox.Replayed)
			if l := one(t, pool, inbox.Dead); string(l.Payload) != "\xff\x00'" || len(l.Headers) != 0 {
				t.Errorf("%+v is not the message without an id", l)
			}
			if _, err := inbox.ReadStats(t.Context(), pool); err != nil {
				t.Error(err)
			}
			counted(t, pool, 1, 1, 1)
		})
	}
}
