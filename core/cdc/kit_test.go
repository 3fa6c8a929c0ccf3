package cdc_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"outboxplayground/core/bus"
	"outboxplayground/core/cdc"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
	"outboxplayground/infra/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; nothing is measured with it.
const patience = 30 * time.Second

// rig is a schema of chapter 8 whose slots and publications go with it.
type rig struct {
	pool   *pgxpool.Pool
	schema string
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

func newRig(t testing.TB, buses ...string) *rig {
	t.Helper()
	r := &rig{}
	r.pool, r.schema = pgtest.Schema(t, 8)
	t.Cleanup(func() {
		for _, b := range buses {
			r.dropSlot(t, b)
			r.exec(t, "DROP PUBLICATION IF EXISTS "+r.schema+"_"+b)
		}
	})
	for _, b := range buses {
		r.prepare(t, b)
	}
	return r
}

func (r *rig) lane(busName string) cdc.Lane { return cdc.Lane{Schema: r.schema, Bus: busName} }

func (r *rig) connect(t testing.TB) func() *pgx.ConnConfig {
	t.Helper()
	cfg, err := pg.ConnConfig(servertest.URL(t, "postgres"), r.schema, pg.Options{Dial: r.dial})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Copy
}

func (r *rig) prepare(t testing.TB, busName string) {
	t.Helper()
	// A new slot waits for the open transactions of all other tests on the server.
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if err := cdc.Prepare(ctx, r.connect(t)(), r.lane(busName)); err != nil {
		t.Fatal(err)
	}
}

const slotOf = `SELECT count(*) FROM pg_replication_slots WHERE starts_with(slot_name, $1)`

// dropSlot waits until the reader of a slot is gone, and drops it.
func (r *rig) dropSlot(t testing.TB, busName string) {
	t.Helper()
	name := r.lane(busName).Name()
	await(t, func() bool {
		_, err := r.pool.Exec(context.Background(), `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE starts_with(slot_name, $1)`, name)
		return err == nil
	})
	if n := pgtest.Count(t, r.pool, slotOf, name); n != 0 {
		t.Errorf("slot %s stays behind", name)
	}
}

func (r *rig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := r.pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r *rig) relay(t testing.TB, b bus.Bus, busName string, cfg cdc.Config) *cdc.Relay {
	t.Helper()
	if cfg.Probe == (outbox.Backoff{}) {
		cfg.Probe = outbox.Backoff{Base: 10 * time.Millisecond, Max: 50 * time.Millisecond}
	}
	relay, err := cdc.NewRelay(r.pool, b, r.lane(busName), r.connect(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return relay
}

// start runs a relay until the returned function is called, which waits for its end.
func start(t testing.TB, relay *cdc.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := relay.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// write commits n events, each in a transaction of its own.
func (r *rig) write(t testing.TB, busName string, n int) (ids []string) {
	t.Helper()
	for range n {
		err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
			id, err := writeIn(t.Context(), tx, busName)
			ids = append(ids, id)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func writeIn(ctx context.Context, tx pgx.Tx, busName string) (string, error) {
	m := bus.Message{ID: uuid.NewString(), Topic: "safe", Key: "u1", Payload: []byte(`{"n": 1}`), Headers: map[string]string{"a": "b"}}
	return m.ID, outbox.Write(ctx, tx, busName, m)
}

// await polls for something that has to come about.
func await(t testing.TB, until func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !until(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("it never came about")
			return
		}
	}
}

func idsOf(b *shoptest.Bus) (ids []string) {
	for _, m := range b.Accepted() {
		ids = append(ids, m.ID)
	}
	return ids
}

// arrives waits until a bus has exactly these, in this order.
func arrives(t testing.TB, b *shoptest.Bus, want []string) {
	t.Helper()
	await(t, func() bool { return len(b.Accepted()) >= len(want) })
	if got := idsOf(b); !slices.Equal(got, want) {
		t.Errorf("the bus has %v, want %v", got, want)
	}
}

func (r *rig) slot(t testing.TB, busName string) cdc.Slot {
	t.Helper()
	slots, err := cdc.Slots(t.Context(), r.pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slots {
		if s.Bus == busName {
			return s
		}
	}
	t.Fatalf("no slot of %s among %+v", busName, slots)
	return cdc.Slot{}
}

// confirmed waits until the slot has passed what is in the log now.
func (r *rig) confirmed(t testing.TB, busName string) {
	t.Helper()
	var end string
	if err := r.pool.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&end); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return r.passed(t, busName, end) })
}

func (r *rig) passed(t testing.TB, busName, at string) bool {
	t.Helper()
	return pgtest.Count(t, r.pool, `SELECT count(*) FROM pg_replication_slots WHERE starts_with(slot_name, $1) AND confirmed_flush_lsn >= $2::pg_lsn`,
		r.lane(busName).Name(), at) == 1
}
