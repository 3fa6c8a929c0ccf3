package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
)

// target is a queue or stream that a peer publishes to: new for each run, and
// removed after it.
type target struct {
	name string
	// publish hands one event over and waits for the broker's acknowledgement. Many
	// goroutines may call it at once.
	publish func(ctx context.Context, payload []byte) error
	// watermill makes watermill's own publisher for this broker, tuned.
	watermill func() (message.Publisher, error)
	// read calls got with the payload of every message that the broker holds.
	read func(ctx context.Context, got func(payload []byte)) error
	// remove deletes it and closes the connections.
	remove func(ctx context.Context) error
}

// open makes a target on a kind of broker.
func open(ctx context.Context, kind kind, url, name string) (*target, error) {
	switch kind.bus {
	case "rabbitmq":
		return openRabbitMQ(url, name, kind.classic)
	case "nats":
		return openNATS(ctx, url, name)
	case "redis":
		return openRedis(url, name)
	}
	return nil, fmt.Errorf("no peer publishes to %s", kind.bus)
}

// event is the payload: 200 bytes of JSON with a number to be recognised by.
type event struct {
	Number int    `json:"number"`
	Filler string `json:"filler"`
}

const payloadBytes = 200

func payload(number int) []byte {
	e := event{Number: number}
	short, _ := json.Marshal(e) // two plain fields
	e.Filler = strings.Repeat("x", payloadBytes-len(short))
	whole, _ := json.Marshal(e)
	return whole
}

// tally counts at the broker: which of rows events are not there, and how many
// messages there are beyond one of each.
func (t *target) tally(ctx context.Context, rows int) (lost, duplicated int, err error) {
	seen, total := map[int]bool{}, 0
	err = t.read(ctx, func(raw []byte) {
		var e event
		if json.Unmarshal(raw, &e) == nil && e.Filler != "" {
			seen[e.Number] = true
		}
		total++
	})
	return rows - len(seen), total - len(seen), err
}
