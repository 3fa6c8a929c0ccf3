package bench_test

import (
	"context"
	"testing"

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
			d, err := bench.Drain(t.Context(), config(t, name), func(stage string) { t.Log(stage) })
			if err != nil {
				t.Fatal(err)
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
		return liar{b}, err
	}
	d, err := bench.Drain(t.Context(), c, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if d.Lost != 7 || d.Duplicated != 7 {
		t.Errorf("%+v, want 7 lost and 7 duplicated: one of each batch of 100", d)
	}
}

// liar drops the first message of a batch and sends the last one twice.
type liar struct{ bus.Bus }

func (l liar) Publish(ctx context.Context, msgs ...bus.Message) error {
	return l.Bus.Publish(ctx, append(append([]bus.Message{}, msgs[1:]...), msgs[len(msgs)-1])...)
}

func (l liar) Prepare(ctx context.Context, topic string, groups ...string) error {
	return l.Bus.(bus.Topology).Prepare(ctx, topic, groups...)
}

func (l liar) Remove(ctx context.Context, topic string, groups ...string) error {
	return l.Bus.(bus.Topology).Remove(ctx, topic, groups...)
}

func TestDrainRefusesNonsense(t *testing.T) {
	for _, c := range []bench.Config{{Rows: -1}, {Batch: 20_000}, {Workers: 65}, {PayloadBytes: 2 << 20}} {
		if _, err := bench.Drain(t.Context(), c, nil); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
