package rabbitmq

import (
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

const (
	keyHeader = "outbox-key"
	// maxShort is what an AMQP short string holds. The client breaks the connection
	// over a longer one, so it must not get that far.
	maxShort = 255
	// maxHeaders keeps all properties within one frame of 128 KiB, the default of
	// both sides; the broker breaks the connection over a larger header frame.
	maxHeaders = 64 << 10
)

// check says why a message cannot be carried, as ErrRejected.
func (b *Bus) check(m bus.Message) error {
	err := checkName(m.Topic)
	switch {
	case err != nil:
		err = fmt.Errorf("topic: %w", err)
	case len(m.ID) > maxShort:
		err = fmt.Errorf("the message id is longer than %d bytes", maxShort)
	case len(m.Payload) > b.opts.MaxBytes:
		err = fmt.Errorf("the payload has %d bytes, the limit is %d", len(m.Payload), b.opts.MaxBytes)
	default:
		err = checkHeaders(m)
	}
	if err != nil {
		return fmt.Errorf("%w: rabbitmq: %w", bus.ErrRejected, err)
	}
	return nil
}

func checkHeaders(m bus.Message) error {
	size := len(m.Key)
	for name, value := range m.Headers {
		size += len(name) + len(value) + 8
		switch {
		case len(name) > maxShort:
			return fmt.Errorf("a header name is longer than %d bytes", maxShort)
		case name == "CC" || name == "BCC":
			return fmt.Errorf("RabbitMQ reads the header %s as further routing keys", name)
		case name == keyHeader:
			return fmt.Errorf("the header %s is the driver's own", name)
		}
	}
	if size > maxHeaders {
		return fmt.Errorf("the headers have %d bytes, the limit is %d", size, maxHeaders)
	}
	return nil
}

// checkName refuses what does not fit into a routing key or queue name together
// with the prefix and the group.
func checkName(name string) error {
	if len(name) > maxShort/3 {
		return fmt.Errorf("a name is longer than %d bytes", maxShort/3)
	}
	if strings.ContainsRune(name, 0) {
		return errors.New("a name holds a zero byte")
	}
	return nil
}

// encode puts a message into AMQP's form. The correlation id tells the returns of
// one publishing from another's: a message id may be published twice at once.
func encode(m bus.Message, publishing string) amqp.Publishing {
	headers := make(amqp.Table, len(m.Headers)+1)
	for name, value := range m.Headers {
		headers[name] = value
	}
	if m.Key != "" {
		headers[keyHeader] = m.Key
	}
	return amqp.Publishing{
		MessageId: m.ID, CorrelationId: publishing, Headers: headers,
		DeliveryMode: amqp.Persistent, Timestamp: time.Now(), Body: m.Payload,
	}
}

// decode is the way back. Headers that are not text are the broker's own, such as
// the count of deliveries.
func decode(topic string, d amqp.Delivery) bus.Message {
	m := bus.Message{ID: d.MessageId, Topic: topic, Payload: d.Body}
	for name, value := range d.Headers {
		text, ok := value.(string)
		switch {
		case !ok:
		case name == keyHeader:
			m.Key = text
		default:
			if m.Headers == nil {
				m.Headers = map[string]string{}
			}
			m.Headers[name] = text
		}
	}
	return m
}
