package redis

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"outboxplayground/core/bus"
)

// The fields of an entry.
const (
	idField      = "id"
	keyField     = "key"
	payloadField = "payload"
	headerField  = "h:" // and the header's name
)

// fields returns the entry of a message. The payload is written through m, which
// thereby learns that the message is on its way.
func fields(msg bus.Message, m *mark) []any {
	m.payload = msg.Payload
	out := []any{idField, msg.ID, keyField, msg.Key, payloadField, m}
	for k, v := range msg.Headers {
		out = append(out, headerField+k, v)
	}
	return out
}

// mark is a payload that remembers whether it was written into a connection's
// buffer. go-redis asks for its bytes only then, with a connection in hand that
// has been greeted; as long as it has not asked, nothing was sent.
type mark struct {
	payload []byte
	sent    bool
}

// MarshalBinary implements encoding.BinaryMarshaler for go-redis's writer.
func (m *mark) MarshalBinary() ([]byte, error) {
	m.sent = true
	return m.payload, nil
}

// size is what MaxBytes bounds.
func size(m bus.Message) int {
	n := len(m.ID) + len(m.Key) + len(m.Payload)
	for k, v := range m.Headers {
		n += len(k) + len(v)
	}
	return n
}

// message is the way back. The topic is the caller's, without the prefix.
func message(topic string, x redis.XMessage) bus.Message {
	m := bus.Message{Topic: topic, Payload: []byte{}}
	for field, value := range x.Values {
		v, _ := value.(string)
		name, isHeader := strings.CutPrefix(field, headerField)
		switch {
		case isHeader:
			if m.Headers == nil {
				m.Headers = make(map[string]string)
			}
			m.Headers[name] = v
		case field == idField:
			m.ID = v
		case field == keyField:
			m.Key = v
		case field == payloadField:
			m.Payload = []byte(v)
		}
	}
	return m
}
