// Command bench sets the relay of core/outbox beside two others that can be had as
// Go modules, on the same servers in the same run. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/infra/servers"
)

// kind is a broker and what is used of it.
type kind struct {
	name, bus string
	classic   bool // queue, on RabbitMQ
}

func kinds() []kind {
	return []kind{{"rabbitmq classic", "rabbitmq", true}, {"rabbitmq quorum", "rabbitmq", false},
		{"nats jetstream", "nats", false}, {"redis streams", "redis", false}}
}

// options say what is compared.
type options struct {
	rows, rounds int
	only, fsync  string
	json         bool
}

func main() {
	var o options
	flag.IntVar(&o.rows, "rows", 10_000, "events of a run")
	flag.IntVar(&o.rounds, "rounds", 3, "runs of each, in turns; figures are medians")
	flag.StringVar(&o.only, "only", "", "only brokers whose name contains this")
	flag.StringVar(&o.fsync, "redis-appendfsync", "", "set this on the Redis server for the time of the run: always, everysec or no")
	flag.BoolVar(&o.json, "json", false, "print each result as one JSON object")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	clean, err := compare(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(3)
	case !clean:
		os.Exit(1)
	}
}

// compare runs everything and prints it; clean says that nothing was lost or sent twice.
func compare(ctx context.Context, o options) (clean bool, err error) {
	if o.rows < 1 || o.rows > 1_000_000 || o.rounds < 1 || o.rounds > 100 {
		return false, errors.New("--rows is 1 to 1,000,000, --rounds 1 to 100")
	}
	if o.fsync != "" {
		back, err := setFsync(ctx, os.Getenv(servers.Variable("redis")), o.fsync)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, back()) }()
	}
	clean, seen := true, 0
	for _, k := range kinds() {
		if !strings.Contains(k.name, o.only) {
			continue
		}
		seen++
		results, err := onBroker(ctx, k, o)
		if err != nil {
			return false, fmt.Errorf("%s: %w", k.name, err)
		}
		for _, r := range results {
			clean = clean && r.Lost == 0 && r.Duplicated == 0
		}
		if err := show(os.Stdout, results, o.json); err != nil {
			return false, err
		}
	}
	if seen == 0 {
		return false, fmt.Errorf("no broker's name contains %q", o.only)
	}
	return clean, nil
}

// onBroker lets the three take turns on one broker.
func onBroker(ctx context.Context, k kind, o options) ([]result, error) {
	db, url := os.Getenv(servers.Variable("postgres")), os.Getenv(servers.Variable(k.bus))
	if db == "" || url == "" {
		return nil, fmt.Errorf("%s and %s must name the servers; README.md has the command that starts them",
			servers.Variable("postgres"), servers.Variable(k.bus))
	}
	var ours, river, watermill result
	for round := range o.rounds {
		fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", k.name, round+1, o.rounds)
		d, err := drainOurs(ctx, k, db, url, o.rows)
		if err != nil {
			return nil, fmt.Errorf("ours: %w", err)
		}
		ours.add(d.EventsPerSecond, d.Lost+d.Stuck, d.Duplicated)
		for _, p := range []struct {
			to  *result
			run func(context.Context, *pgxpool.Pool, *target, int) (float64, error)
		}{{&river, runRiver}, {&watermill, runWatermill}} {
			if err := onePeer(ctx, k, db, url, o.rows, p.run, p.to); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range []struct {
		*result
		relay, settings string
	}{{&ours, "core/outbox", ourSettings}, {&river, "river v0.51.2", riverSettings}, {&watermill, "watermill-sql v4.1.2 forwarder", watermillSettings}} {
		r.Broker, r.Relay, r.Settings, r.Rows, r.Rounds = k.name, r.relay, r.settings, o.rows, o.rounds
		r.finish(&ours)
	}
	return []result{ours, river, watermill}, nil
}

// onePeer runs a peer once, on a target and in a schema of its own, and counts what
// the broker holds afterwards.
func onePeer(ctx context.Context, k kind, db, url string, rows int,
	run func(context.Context, *pgxpool.Pool, *target, int) (float64, error), to *result) (err error) {
	id := uuid.New()
	name := fmt.Sprintf("peers_%x", id[:5])
	t, err := open(ctx, k, url, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.remove(context.WithoutCancel(ctx))) }()
	return inSchema(ctx, db, name, 20, func(pool *pgxpool.Pool) error {
		perSecond, err := run(ctx, pool, t, rows)
		if err != nil {
			return err
		}
		lost, duplicated, err := t.tally(ctx, rows)
		to.add(perSecond, lost, duplicated)
		return err
	})
}
