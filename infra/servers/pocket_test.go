package servers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	goredis "github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
)

// pocket puts one word into a server and takes it out again, with the client
// that the playground uses.
type pocket struct {
	put  func(ctx context.Context, url, word string) error
	take func(ctx context.Context, url string) (string, error)
}

func pocketOf(t *testing.T, name string) pocket {
	t.Helper()
	p, ok := map[string]pocket{
		"postgres": {putPostgres, takePostgres},
		"redis":    {putRedis, takeRedis},
		"nats":     {putNATS, takeNATS},
		"rabbitmq": {putRabbit, takeRabbit},
		"kafka":    {putKafka, takeKafka},
	}[name]
	if !ok {
		t.Fatalf("no pocket for %s", name)
	}
	return p
}

func putPostgres(ctx context.Context, url, word string) error {
	return withPostgres(ctx, url, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, `CREATE TABLE IF NOT EXISTS pocket (word TEXT)`)
		if err == nil {
			_, err = c.Exec(ctx, `INSERT INTO pocket VALUES ($1)`, word)
		}
		return err
	})
}

func takePostgres(ctx context.Context, url string) (word string, err error) {
	err = withPostgres(ctx, url, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT word FROM pocket`).Scan(&word)
	})
	return word, err
}

func setting(ctx context.Context, t *testing.T, url, name string) (value string) {
	t.Helper()
	must(t, withPostgres(ctx, url, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value)
	}))
	return value
}

func withPostgres(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close(ctx))
}

func putRedis(ctx context.Context, url, word string) error {
	return withRedis(url, func(c *goredis.Client) error { return c.Set(ctx, "pocket", word, 0).Err() })
}

func takeRedis(ctx context.Context, url string) (word string, err error) {
	err = withRedis(url, func(c *goredis.Client) error {
		word, err = c.Get(ctx, "pocket").Result()
		return err
	})
	return word, err
}

func withRedis(url string, do func(*goredis.Client) error) error {
	o, err := goredis.ParseURL(url)
	if err != nil {
		return err
	}
	c := goredis.NewClient(o)
	return errors.Join(do(c), c.Close())
}

func putNATS(ctx context.Context, url, word string) error {
	return withNATS(ctx, url, func(s jetstream.JetStream) error {
		_, err := s.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "POCKET", Subjects: []string{"pocket"}})
		if err == nil {
			_, err = s.Publish(ctx, "pocket", []byte(word))
		}
		return err
	})
}

func takeNATS(ctx context.Context, url string) (word string, err error) {
	err = withNATS(ctx, url, func(s jetstream.JetStream) error {
		stream, err := s.Stream(ctx, "POCKET")
		if err != nil {
			return err
		}
		m, err := stream.GetMsg(ctx, 1)
		if err == nil {
			word = string(m.Data)
		}
		return err
	})
	return word, err
}

func withNATS(_ context.Context, url string, do func(jetstream.JetStream) error) error {
	c, err := natsgo.Connect(url)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := jetstream.New(c)
	if err != nil {
		return err
	}
	return do(s)
}

func putRabbit(ctx context.Context, url, word string) error {
	return withRabbit(url, func(ch *amqp.Channel) error {
		args := amqp.Table{"x-queue-type": "quorum"}
		if _, err := ch.QueueDeclare("pocket", true, false, false, false, args); err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		m := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(word)}
		conf, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", "pocket", true, false, m)
		if err != nil {
			return err
		}
		if ok, err := conf.WaitContext(ctx); err != nil || !ok {
			return errors.Join(errors.New("not confirmed"), err)
		}
		return nil
	})
}

// takeRabbit asks until the queue has elected its leader after a restart.
func takeRabbit(ctx context.Context, url string) (word string, err error) {
	for ctx.Err() == nil {
		err = withRabbit(url, func(ch *amqp.Channel) error {
			m, ok, err := ch.Get("pocket", false) // unacknowledged, so it stays
			if err == nil && !ok {
				err = errors.New("the queue is empty")
			}
			word = string(m.Body)
			return err
		})
		if err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond) // a poll, bounded by ctx
	}
	return word, err
}

func withRabbit(url string, do func(*amqp.Channel) error) error {
	c, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
	if err != nil {
		return err
	}
	ch, err := c.Channel()
	if err == nil {
		err = do(ch)
	}
	return errors.Join(err, c.Close())
}

func putKafka(ctx context.Context, url, word string) error {
	tr := &kafka.Transport{}
	defer tr.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(url), Transport: tr}
	made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: "pocket", NumPartitions: 1, ReplicationFactor: 1}}})
	if err != nil {
		return err
	}
	if err := made.Errors["pocket"]; err != nil {
		return err
	}
	w := &kafka.Writer{Addr: kafka.TCP(url), Topic: "pocket", RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, Transport: tr}
	return errors.Join(w.WriteMessages(ctx, kafka.Message{Value: []byte(word)}), w.Close())
}

func takeKafka(ctx context.Context, url string) (string, error) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: strings.Split(url, ","), Topic: "pocket", MaxWait: 100 * time.Millisecond})
	m, err := r.ReadMessage(ctx)
	return string(m.Value), errors.Join(err, r.Close())
}
