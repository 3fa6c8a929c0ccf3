package rabbitmq

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"outboxplayground/core/bus"
)

// The reason is what RabbitMQ 3.10.8 answers to a message above its max_message_size.
func TestCulprit(t *testing.T) {
	tooLarge := &amqp.Error{Code: amqp.PreconditionFailed,
		Reason: "PRECONDITION_FAILED - message size 4 is larger than configured max size 3"}
	missing := &amqp.Error{Code: amqp.NotFound, Reason: "NOT_FOUND - no exchange 'events' in vhost '/'"}
	cases := []struct {
		name      string
		err       *amqp.Error
		unsettled []int
		want      int // position in unsettled
	}{
		{"the first one of the size", tooLarge, []int{1, 2, 3, 4}, 1},
		{"the only one under way", missing, []int{3}, 0},
		{"one of several, nobody knows which", missing, []int{1, 2}, -1},
		{"no message is to blame", &amqp.Error{Code: amqp.ConnectionForced}, []int{2}, -1},
	}
	msgs := make([]bus.Message, 5)
	for i, size := range []int{4, 1, 4, 2, 4} {
		msgs[i].Payload = make([]byte, size)
	}
	for _, c := range cases {
		col := collector{p: &publication{msgs: msgs}, unsettled: c.unsettled}
		if got := col.culprit(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
