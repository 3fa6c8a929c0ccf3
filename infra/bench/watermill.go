package main

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Watermill reads 100 rows at a time and polls every second unless told otherwise.
const (
	watermillBatch    = 1000
	watermillPoll     = 10 * time.Millisecond
	watermillSettings = "batch 1000, poll 10 ms, confirms, 4 channels on RabbitMQ"

	forwarded = "outbox" // watermill's name for the table's topic
)

// watermillDone is true when the last row's offset is acknowledged.
const watermillDone = `SELECT coalesce((SELECT max(offset_acked) FROM watermill_offsets_outbox), 0) =
	(SELECT max("offset") FROM watermill_outbox)`

// runWatermill drains rows events through the forwarder, and returns the rate until
// the last one is acknowledged in its table of offsets.
func runWatermill(ctx context.Context, pool *pgxpool.Pool, to *target, rows int) (perSecond float64, err error) {
	log, schema := watermill.NopLogger{}, wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: watermillBatch}
	db := wsql.BeginnerFromPgx(pool)
	if err := fillWatermill(ctx, pool, schema, to.name, rows); err != nil {
		return 0, err
	}
	publisher, err := to.watermill()
	if err != nil {
		return 0, err
	}
	subscriber, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{SchemaAdapter: schema,
		OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true, PollInterval: watermillPoll}, log)
	if err != nil {
		return 0, errors.Join(err, publisher.Close())
	}
	relay, err := forwarder.NewForwarder(subscriber, publisher, log, forwarder.Config{ForwarderTopic: forwarded})
	if err != nil {
		return 0, errors.Join(err, publisher.Close())
	}
	begun, ended := time.Now(), make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	select {
	case <-relay.Running(): // it has made its table of offsets
	case err := <-ended:
		return 0, errors.Join(errors.New("watermill's forwarder did not start"), err, relay.Close())
	}
	err = until(ctx, pool, watermillDone)
	perSecond = float64(rows) / time.Since(begun).Seconds()
	return perSecond, errors.Join(err, relay.Close(), <-ended)
}

func fillWatermill(ctx context.Context, pool *pgxpool.Pool, schema wsql.SchemaAdapter, topic string, rows int) error {
	to, err := wsql.NewPublisher(wsql.BeginnerFromPgx(pool),
		wsql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	outbox := forwarder.NewPublisher(to, forwarder.PublisherConfig{ForwarderTopic: forwarded})
	for first := 0; first < rows; first += 500 {
		var msgs []*message.Message
		for n := first; n < min(first+500, rows); n++ {
			msgs = append(msgs, message.NewMessage(watermill.NewUUID(), payload(n)))
		}
		if err := outbox.Publish(topic, msgs...); err != nil {
			return err
		}
	}
	_, err = pool.Exec(ctx, `VACUUM ANALYZE watermill_outbox`)
	return err
}
