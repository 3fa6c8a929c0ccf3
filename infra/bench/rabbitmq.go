package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// confirmChannels is how many channels in confirm mode the peers share: more did
// not help.
const confirmChannels = 8

// openRabbitMQ declares a queue of the kind that our driver uses as well.
func openRabbitMQ(url, name string, classic bool) (*target, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, err
	}
	kind := "quorum"
	if classic {
		kind = "classic"
	}
	channels := make([]*amqp.Channel, confirmChannels)
	for i := range channels {
		if channels[i], err = conn.Channel(); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if err := channels[i].Confirm(false); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	if _, err := channels[0].QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": kind}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var next atomic.Uint64
	return &target{
		name: name,
		publish: func(ctx context.Context, payload []byte) error {
			ch := channels[next.Add(1)%confirmChannels]
			return confirmed(ctx, ch, name, payload)
		},
		watermill: func() (message.Publisher, error) { return rabbitMQPublisher(url) },
		read:      func(ctx context.Context, got func([]byte)) error { return readQueue(ctx, conn, name, got) },
		remove: func(context.Context) error {
			_, err := channels[0].QueueDelete(name, false, false, false)
			return errors.Join(err, conn.Close())
		},
	}, nil
}

func confirmed(ctx context.Context, ch *amqp.Channel, queue string, payload []byte) error {
	c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: payload})
	if err != nil {
		return err
	}
	if ok, err := c.WaitContext(ctx); err != nil || !ok {
		return fmt.Errorf("not confirmed: %w", errors.Join(err))
	}
	return nil
}

// rabbitMQPublisher confirms, which is not watermill's default, and pools channels,
// without which it opens one for each message.
func rabbitMQPublisher(url string) (message.Publisher, error) {
	cfg := wamqp.NewDurableQueueConfig(url)
	cfg.Publish.ConfirmDelivery = true
	cfg.Publish.ChannelPoolSize = 4
	return wamqp.NewPublisher(cfg, watermill.NopLogger{})
}

// silence is how long a queue says nothing when it is empty.
const silence = time.Second

func readQueue(ctx context.Context, conn *amqp.Connection, queue string, got func([]byte)) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case d, open := <-deliveries:
			if !open {
				return errors.New("the queue stopped delivering")
			}
			got(d.Body)
		case <-time.After(silence):
			return nil
		}
	}
}
