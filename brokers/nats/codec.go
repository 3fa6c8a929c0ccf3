package nats

import (
	"net/url"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"outboxplayground/core/bus"
)

const (
	keyHeader = "outbox-key"
	// packedHeader holds, in the form of a URL's query, the headers that NATS would
	// change, refuse or act upon: it trims values and turns line ends into spaces,
	// names are tokens, and Nats-* and Status have meanings of their own.
	packedHeader = "outbox-packed"
)

// encode puts a message into NATS' form; the error is ErrRejected.
func (b *Bus) encode(m bus.Message) (*natsgo.Msg, error) {
	if err := checkNames(m.Topic); err != nil {
		return nil, rejected("topic: %w", err)
	}
	if m.ID != "" && !plainValue(m.ID) {
		return nil, rejected("the message id is not plain ASCII")
	}
	out, packed := &natsgo.Msg{Subject: b.subject(m.Topic), Header: natsgo.Header{}, Data: m.Payload}, url.Values{}
	put := func(name, value string) {
		if plainHeader(name) && plainValue(value) {
			out.Header[name] = []string{value}
		} else {
			packed.Set(name, value)
		}
	}
	for name, value := range m.Headers {
		if name == keyHeader || name == packedHeader {
			return nil, rejected("the header %s is the driver's own", name)
		}
		put(name, value)
	}
	if m.Key != "" {
		put(keyHeader, m.Key)
	}
	if len(packed) > 0 {
		out.Header[packedHeader] = []string{packed.Encode()}
	}
	if m.ID != "" {
		out.Header[jetstream.MsgIDHeader] = []string{m.ID}
	}
	return out, nil
}

// decode is the way back. Headers that the server added are left out.
func decode(topic string, in *natsgo.Msg) bus.Message {
	m := bus.Message{Topic: topic, Payload: in.Data}
	take := func(name, value string) {
		if name == keyHeader {
			m.Key = value
			return
		}
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[name] = value
	}
	for name, values := range in.Header {
		switch {
		case len(values) == 0:
		case name == jetstream.MsgIDHeader:
			m.ID = values[0]
		case name == packedHeader:
			packed, _ := url.ParseQuery(values[0])
			for name := range packed {
				take(name, packed.Get(name))
			}
		case plainHeader(name):
			take(name, values[0])
		}
	}
	return m
}

// plainHeader says whether NATS carries a header of this name as it is.
func plainHeader(name string) bool {
	lower := strings.ToLower(name)
	if name == "" || strings.HasPrefix(lower, "nats-") || lower == "status" || lower == "description" {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) < 0
}

// plainValue says whether NATS carries a value as it is.
func plainValue(value string) bool {
	return value != "" && strings.Trim(value, " ") == value &&
		strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
