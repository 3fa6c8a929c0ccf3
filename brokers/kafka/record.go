package kafka

import (
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"outboxplayground/core/bus"
)

const (
	// driverHeader marks the headers that belong to the drivers.
	driverHeader = "outbox-"
	idHeader     = driverHeader + "id"
	// The fixed parts of record format v2: the batch header is exactly this long,
	// and the numbers of one record or header are never longer.
	batchOverhead  = 61
	recordOverhead = 36
	headerOverhead = 10
)

// record returns the Kafka form of a message.
func record(m bus.Message, now time.Time) kafka.Record {
	headers := []kafka.Header{{Key: idHeader, Value: []byte(m.ID)}}
	for k, v := range m.Headers {
		if !strings.HasPrefix(k, driverHeader) {
			headers = append(headers, kafka.Header{Key: k, Value: []byte(v)})
		}
	}
	r := kafka.Record{Time: now, Value: kafka.NewBytes(notNil(m.Payload)), Headers: headers}
	if m.Key != "" {
		r.Key = kafka.NewBytes([]byte(m.Key))
	}
	return r
}

// notNil keeps an empty payload from becoming a null value, which Kafka takes for
// a tombstone.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// size is an upper bound of what a message takes in a batch, without the batch's
// own header.
func size(m bus.Message) int {
	n := recordOverhead + len(m.Key) + len(m.Payload) + headerOverhead + len(idHeader) + len(m.ID)
	for k, v := range m.Headers {
		n += headerOverhead + len(k) + len(v)
	}
	return n
}

// message is the way back. The topic is the caller's, without the prefix.
func message(topic string, r kafka.Message) bus.Message {
	m := bus.Message{Topic: topic, Key: string(r.Key), Payload: notNil(r.Value)}
	for _, h := range r.Headers {
		switch {
		case h.Key == idHeader:
			m.ID = string(h.Value)
		case !strings.HasPrefix(h.Key, driverHeader):
			if m.Headers == nil {
				m.Headers = make(map[string]string)
			}
			m.Headers[h.Key] = string(h.Value)
		}
	}
	return m
}

// partition chooses where a message goes: by its key, without one by its ID.
func partition(m bus.Message, ids []int) int {
	key := m.Key
	if key == "" {
		key = m.ID
	}
	return kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: []byte(key)}, ids...)
}
