package outbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// dial opens a connection like those of the pool.
func dial(pool *pgxpool.Pool) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.ConnectConfig(ctx, pool.Config().ConnConfig.Copy())
	}
}

// woken is a relay with its waker, both running. Poll and Idle are an hour where the
// test does not say otherwise: what is sent then was sent because of a wake.
type woken struct {
	*outbox.Relay
	waker   *outbox.Waker
	bus     *shoptest.Bus
	channel string
	log     *notes
}

// notes is a log that several goroutines write.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) count(words string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Count(n.text.String(), words)
}

func wakes(t testing.TB, pool *pgxpool.Pool, schema string, w outbox.WakerConfig, c outbox.Config) woken {
	t.Helper()
	log := &notes{}
	w.Channel, w.DB, w.Name = outbox.Channel(schema), pool, "nats"
	w.Log = slog.New(slog.NewTextHandler(log, nil))
	if w.Connect == nil {
		w.Connect = dial(pool)
	}
	waker, err := outbox.NewWaker(w)
	if err != nil {
		t.Fatal(err)
	}
	c.Waker, c.Log = waker, w.Log
	for _, d := range []*time.Duration{&c.Poll, &c.Idle} {
		if *d == 0 {
			*d = time.Hour
		}
	}
	b := &shoptest.Bus{}
	x := woken{Relay: relay(t, pool, b, c), waker: waker, bus: b, channel: w.Channel, log: log}
	x.start(t)
	return x
}

// start runs both until the test ends, and waits for them.
func (x woken) start(t testing.TB) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = x.waker.Run(ctx) })
	all.Go(func() { _ = x.Run(ctx) })
	t.Cleanup(func() { stop(); all.Wait() })
}

func (x woken) sent(n int) func() bool { return func() bool { return len(x.bus.Accepted()) == n } }

// listen returns a function that yields what was notified since the last call.
func listen(t *testing.T, pool *pgxpool.Pool, schema string) func() []string {
	t.Helper()
	conn, err := dial(pool)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `LISTEN `+pgx.Identifier{outbox.Channel(schema)}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	return func() (payloads []string) {
		exec(t, pool, `SELECT pg_notify($1, 'that is all')`, outbox.Channel(schema))
		for {
			n, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == "that is all" {
				return payloads
			}
			payloads = append(payloads, n.Payload)
		}
	}
}

const aHundred = `INSERT INTO outbox (event_id, bus, payload) SELECT gen_random_uuid(), 'nats', '{}' FROM generate_series(1, 100)`

// Case 57: one notification for a statement, however many rows, and it is empty; for
// several statements of one transaction Postgres itself makes one of equal ones.
func TestOneNotificationForAStatement(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	heard := listen(t, pool, schema)
	other, _ := pgtest.Schema(t, 7)
	for _, c := range []struct {
		what string
		do   func()
		want int
	}{
		{"100 rows in one statement", func() { exec(t, pool, aHundred) }, 1},
		{"20 statements in one transaction", func() { write(t, pool, "nats", 20) }, 1},
		{"two transactions", func() { write(t, pool, "nats", 1); write(t, pool, "nats", 1) }, 2},
		{"a rollback", func() {
			exec(t, pool, `DO $$ BEGIN `+aHundred+`; RAISE EXCEPTION 'no'; EXCEPTION WHEN others THEN NULL; END $$`)
		}, 0},
		{"what a relay writes", func() { exec(t, pool, `UPDATE outbox SET status = 'failed', attempts = 5`) }, 0},
		{"retries", func() { _, _ = outbox.RetryAll(t.Context(), pool, outbox.Filter{}, "anna") }, 1},
		{"another schema", func() { exec(t, other, aHundred) }, 0},
	} {
		c.do()
		got := heard()
		if len(got) != c.want || strings.Join(got, "") != "" {
			t.Errorf("%s: %q, want %d, all empty", c.what, got, c.want)
		}
	}
	if n := with(t, pool, "pending", 0); n != 122 {
		t.Errorf("%d rows are pending again, want 122", n)
	}
}

// Whatever is written or retried while the relay sleeps is sent at once.
func TestAWokenRelaySleepsUntilItIsWoken(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	x := wakes(t, pool, schema, outbox.WakerConfig{}, outbox.Config{})
	await(t, x.waker.Hears)
	for n := range 5 {
		write(t, pool, "nats", 1)
		await(t, x.sent(n+1))
	}
	exec(t, pool, `INSERT INTO outbox (event_id, bus, payload, status) VALUES (gen_random_uuid(), 'nats', '{}', 'failed')`)
	if _, err := outbox.RetryAll(t.Context(), pool, outbox.Filter{}, "anna"); err != nil {
		t.Fatal(err)
	}
	await(t, x.sent(6))
	if heard, err := outbox.Listening(t.Context(), pool, x.channel); err != nil || heard["nats"] != 1 || len(heard) != 1 {
		t.Errorf("who listens: %v, %v", heard, err)
	}
}

// What is written between the first claim and the LISTEN would wait for Idle.
func TestListeningComesBeforeTheFirstClaim(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	claimed := make(chan struct{})
	var once sync.Once
	steps := &checkpoint.Steps{Observe: func(checkpoint.Name, string) { once.Do(func() { close(claimed) }) }}
	early := atomic.Bool{}
	connect := func(ctx context.Context) (*pgx.Conn, error) {
		select {
		case <-claimed:
			early.Store(true)
		case <-time.After(100 * time.Millisecond): // time enough to be too early
		}
		return dial(pool)(ctx)
	}
	x := wakes(t, pool, schema, outbox.WakerConfig{Connect: connect}, outbox.Config{Steps: steps})
	await(t, x.waker.Hears)
	<-claimed
	if early.Load() {
		t.Error("the relay claimed before anybody listened")
	}
}

// What was written while nobody listened is sent as soon as somebody does.
func TestHearingAgainIsAWake(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	connects := make(chan struct{})
	connect := func(ctx context.Context) (*pgx.Conn, error) {
		select {
		case <-connects:
			return dial(pool)(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	claims := atomic.Int64{}
	steps := &checkpoint.Steps{Observe: func(checkpoint.Name, string) { claims.Add(1) }}
	x := wakes(t, pool, schema, outbox.WakerConfig{Connect: connect}, outbox.Config{Steps: steps})
	connects <- struct{}{}
	await(t, func() bool { return x.waker.Hears() && claims.Load() > 0 })
	before := claims.Load()
	exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, 'hears ' || $1)`, x.channel)
	await(t, func() bool { return claims.Load() > before }) // and would sleep for an hour
	write(t, pool, "nats", 1)
	connects <- struct{}{}
	await(t, x.sent(1))
}

// Rows that nobody announces: those of a producer without the trigger are found at
// Idle, those that another relay has in hand or that wait for their time at Poll.
func TestWhatNobodyNotifiesIsFound(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	exec(t, pool, `ALTER TABLE outbox DISABLE TRIGGER outbox_written`)
	looked := make(chan struct{}, 1)
	steps := &checkpoint.Steps{Observe: func(checkpoint.Name, string) {
		select {
		case looked <- struct{}{}:
		default:
		}
	}}
	slow := wakes(t, pool, schema, outbox.WakerConfig{}, outbox.Config{Idle: 300 * time.Millisecond, Steps: steps})
	await(t, slow.waker.Hears)
	for range 3 {
		<-looked // a row that comes in the middle of a claim is pending, and waits for Poll
	}
	write(t, pool, "nats", 1)
	await(t, slow.sent(1))

	pool, schema = pgtest.Schema(t, 7)
	write(t, pool, "nats", 2)
	exec(t, pool, `INSERT INTO outbox_claims (token, bus, first_id, last_id, lease_until)
		VALUES (7, 'nats', 1, 1, clock_timestamp() + interval '200 ms')`)
	exec(t, pool, `UPDATE outbox SET next_attempt_at = clock_timestamp() + interval '300 ms' WHERE id = 2`)
	later := wakes(t, pool, schema, outbox.WakerConfig{}, outbox.Config{Poll: 10 * time.Millisecond})
	await(t, later.sent(2))
}

// A relay that is going to be woken leaves the database alone.
func TestAWokenRelayIsQuietAtRest(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	claims := atomic.Int64{}
	steps := &checkpoint.Steps{Observe: func(checkpoint.Name, string) { claims.Add(1) }}
	x := wakes(t, pool, schema, outbox.WakerConfig{}, outbox.Config{Poll: time.Millisecond, Steps: steps})
	await(t, x.waker.Hears)
	write(t, pool, "nats", 1)
	await(t, x.sent(1))
	await(t, func() bool { return pending(t, pool) == 0 })
	await(t, func() bool { // it comes to rest
		before := claims.Load()
		time.Sleep(50 * time.Millisecond)
		return claims.Load() == before
	})
}

// Case 55: the listening session is ended, and what is written until there is a new
// one is sent by polling. Afterwards the relay sleeps as before.
func TestASessionThatEndsLosesNothing(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	let := make(chan struct{}, 1)
	let <- struct{}{}
	connect := func(ctx context.Context) (*pgx.Conn, error) {
		select {
		case <-let:
			return dial(pool)(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	x := wakes(t, pool, schema, outbox.WakerConfig{Connect: connect}, outbox.Config{Poll: 20 * time.Millisecond})
	await(t, x.waker.Hears)
	for n := range 3 {
		exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, 'hears ' || $1)`, x.channel)
		await(t, func() bool { return !x.waker.Hears() })
		write(t, pool, "nats", 1)
		await(t, x.sent(2*n+1)) // nobody listens: let is empty
		let <- struct{}{}
		await(t, x.waker.Hears)
		write(t, pool, "nats", 1)
		await(t, x.sent(2*n+2))
	}
	if n := x.log.count("not listening, polling goes on"); n != 3 {
		t.Errorf("%d warnings of 3 sessions that ended", n)
	}
}

// A listener that hears nothing, as behind a pooler. Here it is in another database:
// notifications do not leave theirs. It is found out, said once, and polling goes on.
func TestADeafListenerIsNoticed(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	elsewhere, connects := pgtest.Database(t), atomic.Int64{}
	connect := func(ctx context.Context) (*pgx.Conn, error) {
		connects.Add(1)
		return pgx.Connect(ctx, elsewhere)
	}
	x := wakes(t, pool, schema, outbox.WakerConfig{Connect: connect}, outbox.Config{Poll: 20 * time.Millisecond})
	await(t, func() bool { return x.log.count("pooler") == 1 })
	for n := range 3 {
		write(t, pool, "nats", 1)
		await(t, x.sent(n+1))
	}
	heard, err := outbox.Listening(t.Context(), pool, x.channel)
	if x.waker.Hears() || connects.Load() != 1 || err != nil || len(heard) != 0 {
		t.Errorf("hears %v after %d connections; %v, %v", x.waker.Hears(), connects.Load(), heard, err)
	}
}

// dumb is a double of a database whose notifications get lost once mute is set.
type dumb struct {
	*pgxpool.Pool
	calls atomic.Int64
	mute  atomic.Bool
}

func (d *dumb) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if d.calls.Add(1); d.mute.Load() {
		return pgconn.CommandTag{}, nil
	}
	return d.Pool.Exec(ctx, sql, args...)
}

// Silence is not health: after Check without a word the waker calls itself, and a
// connection that does not hear the call is given up.
func TestASilentConnectionIsCalled(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	var db dumb
	db.Pool = pool
	waker, err := outbox.NewWaker(outbox.WakerConfig{
		Channel: outbox.Channel(schema), DB: &db, Connect: dial(pool), Check: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error)
	go func() { done <- waker.Run(ctx) }()
	await(t, func() bool { return db.calls.Load() > 3 && waker.Hears() })
	db.mute.Store(true)
	await(t, func() bool { return !waker.Hears() })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Under load, wakes are fewer claims: what is committed within Gap goes out together.
func TestWakesWithinTheGapAreOneClaim(t *testing.T) {
	pool, schema := pgtest.Schema(t, 7)
	const gap, orders = 100 * time.Millisecond, 50
	x := wakes(t, pool, schema, outbox.WakerConfig{}, outbox.Config{Gap: gap})
	await(t, x.waker.Hears)
	began := time.Now()
	for range orders {
		write(t, pool, "nats", 1)
	}
	await(t, x.sent(orders))
	if n, most := x.Counters().Claims, int64(time.Since(began)/gap)+2; n > most {
		t.Errorf("%d claims for %d orders in %v, want at most %d", n, orders, time.Since(began), most)
	}
}

func TestAWakerWantsToKnowWhere(t *testing.T) {
	connect := func(context.Context) (*pgx.Conn, error) { return nil, errNetwork }
	for _, c := range []outbox.WakerConfig{
		{}, {Connect: connect, Channel: "x"}, {Connect: connect, DB: &dumb{}},
		{Connect: connect, DB: &dumb{}, Channel: "x", Check: -1},
	} {
		if _, err := outbox.NewWaker(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if _, err := outbox.NewRelay(&dumb{}, &shoptest.Bus{}, "nats", outbox.Config{Gap: -1}); err == nil {
		t.Error("a negative gap is accepted")
	}
}
