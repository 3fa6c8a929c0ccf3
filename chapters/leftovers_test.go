package main

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	goredis "github.com/redis/go-redis/v9"
	kafkago "github.com/segmentio/kafka-go"

	"outboxplayground/core/lab"
	"outboxplayground/infra/servers"
)

// nothingLeft checks that no run of this bench has left anything: in the database,
// which is the bench's own, as a process, or on a broker, asked by each broker's own
// client.
func (b *bench) nothingLeft(t *testing.T) {
	t.Helper()
	if pids := b.children(t); len(pids) > 0 {
		t.Errorf("children stay behind: %v", pids)
	}
	if left := b.schemas(t); len(left) > 0 {
		t.Errorf("schemas stay behind: %v", left)
	}
	if n := b.count(t, globals); n > 0 {
		t.Errorf("%d slots, publications or prepared transactions stay behind", n)
	}
	if n := b.count(t, `SELECT count(*) FROM playground.traces`); n > 0 {
		t.Errorf("%d traces stay noted", n)
	}
	rows, err := b.pool.Query(t.Context(), `SELECT DISTINCT 'run_' || id FROM runs`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var schema string
		if err := rows.Scan(&schema); err != nil {
			t.Fatal(err)
		}
		brokersClean(t, schema)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// children lists the living processes of this bench's runs; those of other benches,
// which may be at work at the same time, bear another mark. A living process that does
// not show its environment is taken for one of ours.
func (b *bench) children(t *testing.T) (ours []int) {
	t.Helper()
	mark := childMark + "=" + b.t.Name() + "\x00"
	for _, pid := range descendants(t, os.Getpid(), childCommandName) {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err == nil && strings.Contains(string(env), mark) || err != nil && len(living(t, []int{pid})) > 0 {
			ours = append(ours, pid)
		}
	}
	return ours
}

// globals counts what runs make in Postgres outside their schemas. The bench's database
// has no slots of anybody else.
const globals = `SELECT
	(SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND slot_name LIKE 'run\_%') +
	(SELECT count(*) FROM pg_publication WHERE pubname LIKE 'run\_%') +
	(SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'run\_%')`

// schemas lists the schemas of runs.
func (b *bench) schemas(t *testing.T) (names []string) {
	t.Helper()
	var all *string
	err := b.pool.QueryRow(t.Context(), `SELECT string_agg(nspname, ' ') FROM pg_namespace WHERE nspname LIKE 'run\_%'`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	if all == nil {
		return nil
	}
	return strings.Fields(*all)
}

func (b *bench) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// brokersClean looks for names that begin with the run's on every broker that has
// a URL.
func brokersClean(t *testing.T, schema string) {
	t.Helper()
	for name, list := range map[string]func(context.Context, string) ([]string, error){
		"rabbitmq": rabbitNames(schema), "kafka": kafkaNames, "nats": natsNames, "redis": redisNames(schema)} {
		url := os.Getenv(servers.Variable(name))
		if url == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		names, err := list(ctx, url)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, n := range names {
			if strings.HasPrefix(n, schema) {
				t.Errorf("%s stays behind on %s", n, name)
			}
		}
	}
}

// rabbitNames asks passively for what a run may make: AMQP cannot list. A refused
// question ends its channel, so each has its own.
func rabbitNames(schema string) func(context.Context, string) ([]string, error) {
	return func(_ context.Context, url string) (found []string, err error) {
		conn, err := amqp.Dial(url)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		ask := func(name string, question func(*amqp.Channel) error) error {
			ch, err := conn.Channel()
			if err != nil {
				return err
			}
			if question(ch) == nil {
				found = append(found, name)
				return ch.Close()
			}
			return nil
		}
		for _, c := range contents() {
			queue := schema + "." + c.Topic + ".mailer"
			if err := ask(queue, func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
				return err
			}); err != nil {
				return nil, err
			}
		}
		exchange := schema + ".events"
		return found, ask(exchange, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, "direct", true, false, false, false, nil)
		})
	}
}

func kafkaNames(ctx context.Context, brokers string) (names []string, err error) {
	transport := &kafkago.Transport{} // its own: the shared one answers from a cache
	defer transport.CloseIdleConnections()
	c := &kafkago.Client{Addr: kafkago.TCP(strings.Split(brokers, ",")...), Transport: transport}
	m, err := c.Metadata(ctx, &kafkago.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	for _, topic := range m.Topics {
		names = append(names, topic.Name)
	}
	groups, err := c.ListGroups(ctx, &kafkago.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	for _, g := range groups.Groups {
		names = append(names, g.GroupID)
	}
	return names, nil
}

func natsNames(ctx context.Context, url string) (names []string, err error) {
	conn, err := natsgo.Connect(url)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	streams := js.StreamNames(ctx)
	for n := range streams.Name() {
		names = append(names, n)
	}
	return names, streams.Err()
}

func redisNames(schema string) func(context.Context, string) ([]string, error) {
	return func(ctx context.Context, url string) ([]string, error) {
		o, err := goredis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		c := goredis.NewClient(o)
		defer c.Close()
		return c.Keys(ctx, schema+"*").Result()
	}
}

// descendants lists the living processes below pid whose command line has a word.
// A dead one that nobody has waited for is not living.
func descendants(t *testing.T, pid int, word string) (found []int) {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	below := map[int]bool{pid: true}
	for range 3 { // parents may be listed after their children
		found = nil
		for _, line := range strings.Split(string(out), "\n") {
			f := strings.Fields(line)
			if len(f) < 4 {
				continue
			}
			p, _ := strconv.Atoi(f[0])
			parent, _ := strconv.Atoi(f[1])
			if !below[parent] || strings.HasPrefix(f[2], "Z") {
				continue
			}
			below[p] = true
			if strings.Contains(line, word) {
				found = append(found, p)
			}
		}
	}
	return found
}

// living tells which of the processes still are.
func living(t *testing.T, pids []int) (alive []int) {
	t.Helper()
	for _, pid := range pids {
		if s := status(pid); s != "" && !strings.HasPrefix(s, "Z") {
			alive = append(alive, pid)
		}
	}
	return alive
}

// status is what ps says of a process: T stopped, Z dead, "" gone.
func status(pid int) string {
	out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output() // an error means: no such process
	return strings.TrimSpace(string(out))
}

// The look at the brokers must be able to find something: a run that is going on.
func TestLeftoversAreSeen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rabbitmq", "kafka", "nats", "redis"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, name)
			seen := 0
			_, err := b.Run(t.Context(), lab.Spec{Chapter: 3, Bus: name, Orders: 1}, func(p lab.Progress) {
				if p.Stage != "judging" {
					return
				}
				schemas := b.schemas(t)
				if len(schemas) != 1 {
					t.Fatalf("schemas: %v", schemas)
				}
				seen = namesOf(t, name, schemas[0])
				if n := len(b.children(t)); n != 3 {
					t.Errorf("%d children are seen, want 3", n)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if seen == 0 {
				t.Error("nothing of a living run was seen on the broker")
			}
			b.nothingLeft(t)
		})
	}
}

func namesOf(t *testing.T, name, schema string) (n int) {
	t.Helper()
	list := map[string]func(context.Context, string) ([]string, error){
		"rabbitmq": rabbitNames(schema), "kafka": kafkaNames, "nats": natsNames, "redis": redisNames(schema)}[name]
	names, err := list(t.Context(), os.Getenv(servers.Variable(name)))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range names {
		if strings.HasPrefix(found, schema) {
			n++
		}
	}
	return n
}
