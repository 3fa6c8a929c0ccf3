package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"outboxplayground/brokers"
	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// Twenty runs asked for at once finish with the verdict that is declared, are
// stored, and leave nothing.
func TestTwentyRunsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, brokers.Names()...)
	q := lab.NewQueue(b.Lab, b.pool)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { q.Run(ctx) })
	defer work.Wait()
	defer cancel()
	var ids []string
	for i := range 20 {
		spec := lab.Spec{Chapter: 1 + i/5%3, Bus: brokers.Names()[i%5], Fault: []string{"none", "rollback", "crash-after-commit", "consumer-crash"}[i%4]}
		ticket, err := q.Submit(spec)
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		ids = append(ids, ticket.ID)
	}
	for _, id := range ids {
		ticket := finished(t, q, id)
		if ticket.State != lab.Done {
			t.Errorf("%+v: %s %s", ticket.Spec, ticket.State, ticket.Error)
			continue
		}
		if diff := lab.Agrees(ticket.Report.Declared, *ticket.Report); diff != "" {
			t.Errorf("%+v: %s", ticket.Spec, diff)
		}
		if stored := b.load(t, id); stored.Report.Measured != ticket.Report.Measured || len(stored.Trails) != ticket.Spec.Orders {
			t.Errorf("%s: stored is %+v with %d trails", id, stored.Report.Measured, len(stored.Trails))
		}
	}
	b.nothingLeft(t)
}

// finished follows the events of a run to its end, as a page does.
func finished(t *testing.T, q *lab.Queue, id string) lab.Ticket {
	t.Helper()
	limit := time.After(5 * time.Minute)
	for seq := 0; ; {
		events, over, more, ok := q.Events(id, seq)
		if !ok {
			t.Fatalf("run %s is unknown", id)
		}
		for _, e := range events {
			if e.Seq != seq+1 {
				t.Fatalf("event %d follows event %d", e.Seq, seq)
			}
			seq = e.Seq
		}
		if over {
			ticket, _ := q.Get(id)
			return ticket
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("run %s does not end", id)
		}
	}
}

// repetitions of one experiment: serial orders leave no room for chance.
func TestRepetitionsMeasureTheSame(t *testing.T) {
	b := newBench(t, brokers.Names()...)
	times := 3
	if full() {
		times = 10
	}
	for _, spec := range []lab.Spec{
		{Chapter: 1, Bus: "kafka", Fault: "broker-down"},
		{Chapter: 1, Variant: "publish-first", Bus: "rabbitmq", Fault: "ack-lost"},
		{Chapter: 2, Bus: "redis", Fault: "db-down"},
		{Chapter: 3, Bus: "rabbitmq", Fault: "crash-after-publish"},
		{Chapter: 3, Bus: "kafka", Fault: "consumer-crash"},
		{Chapter: 3, Bus: "inmemory", Fault: "crash-after-mark"},
		{Chapter: 3, Bus: "nats", Fault: "broker-down", Seed: 7},
	} {
		t.Run(fmt.Sprintf("%d %s %s", spec.Chapter, spec.Bus, spec.Fault), func(t *testing.T) {
			t.Parallel()
			reports := make([]lab.Report, times)
			var g errgroup.Group
			g.SetLimit(3)
			for i := range reports {
				g.Go(func() error {
					res, err := b.Run(t.Context(), spec, nil)
					reports[i] = res.Report
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			for i, r := range reports {
				if r.Valid == audit.Unknown || r.Valid != reports[0].Valid || r.Measured != reports[0].Measured || r.Faults[0].FromOrder != reports[0].Faults[0].FromOrder {
					t.Errorf("repetition %d: %s %+v %+v (%s); the first: %s %+v", i+1, r.Valid, r.Measured, r.Faults[0], r.Why,
						reports[0].Valid, reports[0].Measured)
				}
			}
			t.Logf("%d times %s: %+v", times, reports[0].Valid, reports[0].Measured)
		})
	}
}

// A run that is broken off in the middle, by its caller's context, cleans up and
// is not a verdict.
func TestCancelledRunIsNoVerdict(t *testing.T) {
	b := newBench(t, "nats")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := b.Run(ctx, lab.Spec{Chapter: 3, Bus: "nats"}, func(p lab.Progress) {
		if p.Stage == "running" && p.Done == 20 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was broken off says %v, valid %q", err, res.Report.Valid)
	}
	b.nothingLeft(t)
}

// A panic in the middle of a run cleans up as well.
func TestPanicInARunCleansUp(t *testing.T) {
	b := newBench(t, "redis")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_, _ = b.Run(t.Context(), lab.Spec{Chapter: 3, Bus: "redis"}, func(p lab.Progress) {
			if p.Done == 20 {
				panic("in the middle of a run")
			}
		})
	}()
	b.nothingLeft(t)
}

// A sweep tells the dead from the living by their lock alone.
func TestSweepSparesWhatIsLocked(t *testing.T) {
	b := newBench(t, "redis")
	const schema = "run_00000000aa"
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE SCHEMA " + schema)
	exec("CREATE TABLE " + schema + ".orders (id INT)")
	exec("INSERT INTO playground.traces (schema_name, bus, topic) VALUES ($1, 'redis', 'safe')", schema)
	alive, err := pgx.Connect(t.Context(), b.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alive.Exec(t.Context(), `SELECT pg_advisory_lock(hashtext('outbox-playground run'), hashtext($1))`, schema); err != nil {
		t.Fatal(err)
	}
	if err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.schemas(t)) != 1 || b.count(t, `SELECT count(*) FROM playground.traces`) != 1 {
		t.Error("the sweep took what a living run holds")
	}
	if err := alive.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the sweep", func() bool {
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(b.schemas(t)) == 0
	})
	b.nothingLeft(t)
}

// The database may belong to somebody: a schema whose name looks like a run's is
// theirs unless a run has noted it.
func TestSweepTakesOnlyWhatARunHasNoted(t *testing.T) {
	b := newBench(t)
	for _, sql := range []string{"CREATE SCHEMA run_log", "CREATE SCHEMA race_results", "CREATE SCHEMA run_0123456789"} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, `SELECT count(*) FROM pg_namespace WHERE nspname IN ('run_log', 'race_results', 'run_0123456789')`); n != 3 {
		t.Errorf("%d of 3 foreign schemas are left", n)
	}
}

// What a dead run left on one bus must not keep a command that uses another one
// from working.
func TestLeftoversOnAnotherBusDoNotStopARun(t *testing.T) {
	b := newBench(t, "redis")
	note := `INSERT INTO playground.traces (schema_name, bus, topic) VALUES ('run_00000000ab', 'nats', 'safe')`
	if _, err := b.pool.Exec(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	if err := b.Sweep(t.Context()); err != nil {
		t.Errorf("the sweep: %v", err)
	}
	if n := b.count(t, `SELECT count(*) FROM playground.traces`); n != 1 {
		t.Errorf("%d notes: what could not be removed has to stay noted", n)
	}
}
