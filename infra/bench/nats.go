package main

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	wnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func openNATS(ctx context.Context, url, name string) (*target, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &target{
		name: name,
		publish: func(ctx context.Context, payload []byte) error {
			_, err := js.Publish(ctx, name, payload)
			return err
		},
		watermill: func() (message.Publisher, error) {
			cfg := wnats.PublisherConfig{URL: url, Marshaler: &wnats.NATSMarshaler{}}
			return wnats.NewPublisher(cfg, watermill.NopLogger{})
		},
		read: func(ctx context.Context, got func([]byte)) error { return readStream(ctx, stream, got) },
		remove: func(ctx context.Context) error {
			defer conn.Close()
			return js.DeleteStream(ctx, name)
		},
	}, nil
}

func readStream(ctx context.Context, s jetstream.Stream, got func([]byte)) error {
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	for left := int(info.State.Msgs); left > 0; {
		batch, err := c.Fetch(min(left, 1000))
		if err != nil {
			return err
		}
		n := 0
		for m := range batch.Messages() {
			got(m.Data())
			n++
		}
		if n == 0 {
			return errors.Join(errors.New("the stream yields less than it says"), batch.Error())
		}
		left -= n
	}
	return nil
}
