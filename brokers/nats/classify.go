package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"outboxplayground/core/bus"
)

// Error codes of the server (server/errors.json) that the client has no names for.
const (
	errInsufficientResources jetstream.ErrorCode = 10023
	errStorageExceeded       jetstream.ErrorCode = 10047
	errStoreFailed           jetstream.ErrorCode = 10077
	errTooManyRequests       jetstream.ErrorCode = 10167
)

// sendError classes what the client said before it sent anything; an error that it
// got from the socket is ambiguous.
func sendError(err error) error {
	for _, e := range []error{natsgo.ErrMaxPayload, natsgo.ErrBadSubject, natsgo.ErrBadHeaderMsg, natsgo.ErrHeadersNotSupported} {
		if errors.Is(err, e) {
			return rejected("%w", err)
		}
	}
	for _, e := range []error{natsgo.ErrReconnectBufExceeded, natsgo.ErrConnectionClosed, natsgo.ErrConnectionDraining} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: nats: %w", bus.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("nats: send: %w", err)
}

// ackError classes what came instead of a PubAck. A lack of room is unavailable:
// the server says that it did not store the message and may do so later.
func ackError(err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("nats: %w", err)
	}
	full := api.ErrorCode == errStoreFailed && strings.HasPrefix(api.Description, "maximum ")
	switch {
	case full, api.ErrorCode == errTooManyRequests,
		api.ErrorCode == errInsufficientResources, api.ErrorCode == errStorageExceeded:
		return fmt.Errorf("%w: nats: %w", bus.ErrUnavailable, err)
	case api.Code == 400:
		return rejected("%w", err)
	}
	return fmt.Errorf("nats: %w", err)
}

// explainSilence settles the messages to whose subject nobody listened. Nobody has
// them, so the question is only whether a stream will ever take them.
func (b *Bus) explainSilence(ctx context.Context, msgs []bus.Message, fate []error) {
	known := map[string]error{}
	for i, err := range fate {
		if !errors.Is(err, jetstream.ErrNoStreamResponse) {
			continue
		}
		topic := msgs[i].Topic
		if known[topic] == nil {
			known[topic] = b.silenceOf(ctx, topic)
		}
		fate[i] = known[topic]
	}
}

// silenceOf asks for the stream. Only its certain absence is a rejection: nobody
// listens either while a leader is elected, and while a server shuts down, which
// ends JetStream before it ends the connections.
func (b *Bus) silenceOf(ctx context.Context, topic string) error {
	_, err := b.js.Stream(ctx, b.stream(topic))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return rejected("no stream takes %s: %w", b.subject(topic), err)
	}
	if err == nil {
		err = errors.New("its stream exists")
	}
	return fmt.Errorf("%w: nats: nobody listens on %s: %w", bus.ErrUnavailable, b.subject(topic), err)
}
