package bench_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"outboxplayground/brokers"
	"outboxplayground/core/bench"
	"outboxplayground/core/bus"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/infra/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t testing.TB, busName string) bench.Config {
	t.Helper()
	url := ""
	if busName != "inmemory" {
		url = servertest.URL(t, busName)
	}
	return bench.Config{
		DatabaseURL: servertest.URL(t, "postgres"), Bus: busName, Shared: busName == "inmemory",
		Rows: 700, Batch: 100, Workers: 2,
		Open: func(ctx context.Context, prefix string) (bus.Bus, error) {
			cfg := brokers.Config{Config: bus.Config{URL: url, Prefix: prefix}}
			cfg.RabbitMQ.Settle = -1 // nobody kills the broker
			return brokers.Open(ctx, busName, cfg)
		},
	}
}

// On every bus: what was drained has arrived, once, and nothing stays behind.
func TestDrainCountsWhatArrived(t *testing.T) {
	for _, name := range brokers.Names() {
		t.Run(name, func(t *testing.T) {
			c := config(t, name)
			c.Log = name == "redis"
			d, err := bench.Drain(t.Context(), c, func(stage string) { t.Log(stage) })
			if err != nil {
				t.Fatal(err)
			}
			if c.Log != (d.LogPerSecond > 0) {
				t.Errorf("%.0f events/s from the log", d.LogPerSecond)
			}
			if d.Lost != 0 || d.Duplicated != 0 || d.Stuck != 0 || d.Rows != 700 {
				t.Errorf("%+v, want 700 rows, none lost, duplicated or stuck", d)
			}
			if d.EventsPerSecond <= 0 || d.ReferencePerSecond <= 0 || d.RawPerSecond <= 0 || d.Postgres == "" {
				t.Errorf("%+v, want figures", d)
			}
		})
	}
	pool, _ := pgtest.Schema(t, 1)
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM pg_namespace n JOIN pg_stat_activity a
		ON a.application_name = n.nspname WHERE n.nspname LIKE 'bench\_%' AND a.pid <> pg_backend_pid()`); n != 0 {
		t.Errorf("%d connections to schemas of benchmarks are left", n)
	}
}

// A bus that drops and repeats is found out.
func TestDrainFindsOutWhatIsWrong(t *testing.T) {
	c := config(t, "inmemory")
	honest := c.Open
	c.Open = func(ctx context.Context, prefix string) (bus.Bus, error) {
		b, err := honest(ctx, prefix)
		return liar{wrapped{b}}, err
	}
	d, err := bench.Drain(t.Context(), c, quietly)
	if err != nil {
		t.Fatal(err)
	}
	if d.Lost != 7 || d.Duplicated != 7 {
		t.Errorf("%+v, want 7 lost and 7 duplicated: one of each batch of 100", d)
	}
}

// Every tenth of the events that a latency waits for never comes, every tenth twice.
func TestLatencyFindsOutWhatIsWrong(t *testing.T) {
	c := config(t, "inmemory")
	honest := c.Open
	c.Open = func(ctx context.Context, prefix string) (bus.Bus, error) {
		b, err := honest(ctx, prefix)
		return &stutterer{wrapped: wrapped{b}}, err
	}
	c.Rows = 100 - warm
	d, err := bench.Latency(t.Context(), c, bench.Load{Rate: 1000, Waker: bench.Wake(), Rest: time.Millisecond}, quietly)
	if err != nil {
		t.Fatal(err)
	}
	if d.Lost != 7 || d.Duplicated != 6 {
		t.Errorf("%+v, want 7 lost (the 40th to the 100th) and 6 duplicated (the 41st to the 91st)", d)
	}
}

// The worker that polls more often asks more often, and is found sooner.
func TestLatencySeesTheDifferenceBetweenWakers(t *testing.T) {
	c := config(t, "inmemory")
	c.Rows = 40
	measured := map[time.Duration]bench.Delayed{}
	for _, every := range []time.Duration{10 * time.Millisecond, 200 * time.Millisecond} {
		d, err := bench.Latency(t.Context(), c, bench.Load{Rate: 200, Waker: bench.Poll(every), Rest: 600 * time.Millisecond}, quietly)
		if err != nil {
			t.Fatal(err)
		}
		if d.Lost+d.Duplicated+d.Stuck != 0 || d.Waker != "poll "+every.String() {
			t.Errorf("%+v", d)
		}
		measured[every] = d
	}
	often, seldom := measured[10*time.Millisecond], measured[200*time.Millisecond]
	if often.P50 >= seldom.P50 || often.AtRest < 3*seldom.AtRest || seldom.AtRest <= 0 {
		t.Errorf("every 10 ms: %+v\nevery 200 ms: %+v", often, seldom)
	}
}

// A relay that is notified sends at once, and asks next to nothing at rest: less than
// one that polls every 500 ms, which needs eight statements a second for it.
func TestLatencyOfNotify(t *testing.T) {
	c := config(t, "inmemory")
	c.Rows = 40
	d, err := bench.Latency(t.Context(), c, bench.Load{Rate: 200, Waker: bench.Notify(0), Rest: 2 * time.Second}, quietly)
	if err != nil {
		t.Fatal(err)
	}
	if d.Lost+d.Duplicated+d.Stuck != 0 || d.P50 > 200 || d.AtRest > 6 {
		t.Errorf("%+v", d)
	}
}

// warm is how many orders come before the measured ones.
const warm = 32

// stutterer drops every tenth message and sends the one after it twice.
type stutterer struct {
	wrapped
	mu sync.Mutex
	n  int
}

func (s *stutterer) Publish(ctx context.Context, msgs ...bus.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []bus.Message
	for _, m := range msgs {
		switch s.n++; {
		case s.n <= warm || s.n%10 > 1:
			out = append(out, m)
		case s.n%10 == 1:
			out = append(out, m, m)
		}
	}
	return s.Bus.Publish(ctx, out...)
}

// wrapped is a bus in memory, with all that the benchmarks ask of one.
type wrapped struct{ bus.Bus }

func (w wrapped) Prepare(ctx context.Context, topic string, groups ...string) error {
	return w.Bus.(bus.Topology).Prepare(ctx, topic, groups...)
}

func (w wrapped) Remove(ctx context.Context, topic string, groups ...string) error {
	return w.Bus.(bus.Topology).Remove(ctx, topic, groups...)
}

func (w wrapped) Backlog(ctx context.Context, topic, group string) (int64, error) {
	return w.Bus.(bus.Backlogger).Backlog(ctx, topic, group)
}

// liar drops the first message of a batch and sends the last one twice.
type liar struct{ wrapped }

func (l liar) Publish(ctx context.Context, msgs ...bus.Message) error {
	return l.Bus.Publish(ctx, append(append([]bus.Message{}, msgs[1:]...), msgs[len(msgs)-1])...)
}

func TestNonsenseIsRefused(t *testing.T) {
	ctx := t.Context()
	for _, c := range []bench.Config{{Rows: -1}, {Batch: 20_000}, {Workers: 65}, {PayloadBytes: 2 << 20}} {
		if _, err := bench.Drain(ctx, c, nil); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	for _, l := range []bench.Load{{}, {Rate: -1, Waker: bench.Wake()}, {Rate: 20_000, Waker: bench.Wake()}, {Rest: -1, Waker: bench.Wake()}} {
		if _, err := bench.Latency(ctx, bench.Config{}, l, nil); err == nil {
			t.Errorf("%+v: no error", l)
		}
	}
	for _, g := range []bench.Growth{{Sent: []int{-1}}, {Pending: []int{99}}, {Sent: []int{1 << 40}}, {Loops: -1}} {
		if bench.Claim(ctx, bench.Config{}, g, nil, nil) == nil {
			t.Errorf("%+v: no error", g)
		}
	}
	for _, hold := range []time.Duration{0, -1, 2 * time.Hour} {
		if bench.Snapshot(ctx, bench.Config{}, hold, nil, nil) == nil {
			t.Errorf("a snapshot held for %v: no error", hold)
		}
	}
	for _, clients := range []int{0, -1, 1000} {
		if bench.Produce(ctx, bench.Config{}, clients, nil, nil) == nil {
			t.Errorf("%d clients: no error", clients)
		}
	}
}

// A process that is killed cleans nothing up. What it has made is noted beforehand, and
// the next start of a playground sweeps.
func TestWhatIsMadeIsNotedWhileItIsThere(t *testing.T) {
	c := config(t, "inmemory")
	c.DatabaseURL = pgtest.Database(t)
	pool, err := pgxpool.New(t.Context(), c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const schemas = `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'bench\_%'`
	unnoted := schemas + ` AND nspname NOT IN (SELECT schema_name FROM playground.traces)`
	seen := 0
	if _, err := bench.Drain(t.Context(), c, func(stage string) {
		seen = max(seen, pgtest.Count(t, pool, schemas))
		if n := pgtest.Count(t, pool, unnoted); n > 0 {
			t.Errorf("%s: %d schemas are not noted", stage, n)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if left := pgtest.Count(t, pool, schemas+` OR EXISTS (SELECT FROM playground.traces)`); seen == 0 || left > 0 {
		t.Errorf("%d schemas were seen, and something of %d is left", seen, left)
	}
}
