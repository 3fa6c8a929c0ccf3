package wake

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

const schema = "ch07"

// site is a database where the chapter's relay is at work, as the chapter makes it.
type site struct {
	pool *pgxpool.Pool // not the relay's: the test's own
	bus  *shoptest.Bus
	log  *notes
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

// newSite migrates a database and runs the relay on it, whose connections lead by way
// of another address where through is given. All of it ends with the test.
func newSite(t *testing.T, database, through string) site {
	t.Helper()
	ctx := context.Background()
	if err := pg.MigrateChapter(ctx, database, schema, 7); err != nil {
		t.Fatal(err)
	}
	if through == "" {
		through = database
	}
	s := site{pool: open(t, database), bus: &shoptest.Bus{}, log: &notes{}}
	own, err := pg.ConnConfig(through, schema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	v, _ := Chapter().Variant("")
	running := v.Relay(lab.Deps{DB: open(t, through), Bus: s.bus, BusName: "redis",
		Schema: schema, ConnConfig: own.Copy,
		Log: slog.New(slog.NewTextHandler(s.log, nil))})
	var ended sync.WaitGroup
	ended.Go(func() { _ = running.Run(ctx) })
	t.Cleanup(func() { stop(); ended.Wait() })
	return s
}

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(url, schema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// place places an order and returns how long its event took.
func (s site) place(t *testing.T) time.Duration {
	t.Helper()
	n, order := len(s.bus.Accepted()), shoptest.Order("redis")
	began := time.Now()
	if err := (&Outbox{DB: s.pool}).PlaceOrder(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return len(s.bus.Accepted()) == n+1 })
	return time.Since(began)
}

func (s site) listening(t *testing.T) bool {
	t.Helper()
	heard, err := outbox.Listening(t.Context(), s.pool, outbox.Channel(schema))
	return err == nil && heard["redis"] == 1
}

// patience bounds what a test waits for; nothing is measured with it.
const patience = 30 * time.Second

func await(t *testing.T, until func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !until(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came about")
		}
	}
}

// slack is what a busy machine may add to a wait.
const slack = time.Second

func TestPlaceOrderKeepsBothRowsOrNeither(t *testing.T) {
	pool, _ := pgtest.Schema(t, 7)
	kept, refused := shoptest.Order("redis"), shoptest.Order("redis")
	p := &Outbox{DB: pool, Steps: checkpoint.Fail(checkpoint.BeforeCommit,
		refused.EventID, context.Canceled)}
	if err := p.PlaceOrder(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if err := p.PlaceOrder(t.Context(), refused); err == nil {
		t.Error("the order that shall fail is accepted")
	}
	for id, want := range map[string]int{kept.EventID: 1, refused.EventID: 0} {
		if n := pgtest.Count(t, pool, `SELECT count(*) FROM orders
			JOIN outbox USING (event_id) WHERE event_id = $1`, id); n != want {
			t.Errorf("%d orders with their rows, want %d", n, want)
		}
	}
}

// Case 55: while nobody listens an order waits for one poll, afterwards for none.
func TestTheListeningSessionIsEnded(t *testing.T) {
	s := newSite(t, pgtest.Database(t), "")
	await(t, func() bool { return s.listening(t) })
	t.Logf("notified: %v", s.place(t))
	const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name LIKE 'hears %' AND datname = current_database()`
	if _, err := s.pool.Exec(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	took := s.place(t)
	t.Logf("right after the session has ended: %v", took)
	if took > poll+slack {
		t.Errorf("an order that nobody announced took %v, longer than a poll", took)
	}
	await(t, func() bool { return s.listening(t) })
	t.Logf("listening again: %v", s.place(t))
	if n := s.log.count("polling goes on"); n != 1 {
		t.Errorf("%d warnings that nobody listens, want 1", n)
	}
}

// Case 58: PostgreSQL is killed under the relay and its waker. They try again with
// growing pauses, say so, and take next to no time of the processor.
func TestPostgresIsKilled(t *testing.T) {
	server := servertest.Start(t, "postgres", servers.Options{NoSync: true})
	s := newSite(t, server.URL, "")
	await(t, func() bool { return s.listening(t) })
	s.place(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	began, spent := time.Now(), processorTime(t)
	// 0.25 + 0.5 + 1 s
	await(t, func() bool { return s.log.count("polling goes on") >= 4 })
	away := time.Since(began)
	if used := processorTime(t) - spent; used > away/5 {
		t.Errorf("%v of the processor in %v of waiting", used, away)
	}
	if n := s.log.count("polling goes on"); n > 5 || away < time.Second {
		t.Errorf("%d attempts in %v", n, away)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return s.listening(t) })
	s.place(t)
}

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A pooler that hands out sessions by the transaction swallows what is notified. One
// that hands them out to a client passes it on.
func TestBehindPgBouncer(t *testing.T) {
	for mode, hears := range map[string]bool{
		servers.ByTransaction: false, servers.BySession: true,
	} {
		t.Run(mode, func(t *testing.T) {
			database := pgtest.Database(t)
			inSchema(t, database)
			pooler := servertest.PgBouncer(t, database, mode)
			s := newSite(t, database, unprepared(t, pooler.URL))
			await(t, func() bool {
				return s.log.count("pooler")+s.log.count("outbox: listening") > 0
			})
			if said := s.log.count("is there a pooler") == 1; said == hears ||
				s.listening(t) != hears {
				t.Errorf("complains %v, listens %v, want %v and %v\n%s",
					said, s.listening(t), !hears, hears, s.log.text.String())
			}
			for range 2 {
				took := s.place(t)
				t.Logf("hears %v: %v", hears, took)
				if took > poll+slack {
					t.Errorf("an event took %v", took)
				}
			}
		})
	}
}

// inSchema sets the schema on the database: a pooler does not pass on what a client
// asks for when it connects.
func inSchema(t *testing.T, database string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	name := pgx.Identifier{conn.Config().Database}.Sanitize()
	if _, err := conn.Exec(t.Context(),
		`ALTER DATABASE `+name+` SET search_path = `+schema); err != nil {
		t.Fatal(err)
	}
}

// unprepared is a URL whose clients prepare no statements, which are a session's too.
func unprepared(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", "exec")
	u.RawQuery = q.Encode()
	return u.String()
}

func TestARelayThatCannotBeMadeSaysSo(t *testing.T) {
	v, _ := Chapter().Variant("")
	if err := v.Relay(lab.Deps{}).Run(t.Context()); err == nil {
		t.Error("a relay without a database runs")
	}
}
