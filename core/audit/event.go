package audit

import (
	"context"
	"fmt"
	"time"
)

// Backlog says how many messages of a chapter a bus still holds for the listener:
// waiting and in its hands. An error means that nobody can tell now.
type Backlog func(ctx context.Context, chapter int, bus string) (int64, error)

// Redelivery is how long a bus may keep silent about a message before it delivers
// it again, as the drivers configure it. Before that, silence proves nothing.
func Redelivery(busName string) time.Duration {
	switch busName {
	case "kafka":
		return 6 * time.Second // session timeout
	case "nats", "redis":
		return 5 * time.Second // AckWait, XAUTOCLAIM idle
	default:
		return time.Second // given back with the connection
	}
}

// rabbitElsewhere is how long a listener in another process may stand still with a
// message of RabbitMQ's in hand: after three missed heartbeats of 10 s at the latest the
// broker takes the message back and counts it again.
const rabbitElsewhere = 35 * time.Second

// publishLimit bounds how long after its commit an order without an outbox may
// still be on its way to the broker: the chapters' own publish deadline.
const publishLimit = 5 * time.Second

// Event reads the trail of an event and judges it. ErrUnknown when there is none.
//
// What the tables cannot say alone is asked outside, and then the rows are read a
// second time. The order matters: a message that the bus no longer held, a
// transaction that was over when we asked, have left their rows by then.
func Event(ctx context.Context, s Source, backlog Backlog, eventID string) (Trail, error) {
	t, err := s.read(ctx, eventID)
	if err != nil {
		return Trail{}, err
	}
	if !t.found() {
		return Trail{}, fmt.Errorf("%w: %s in chapter %d", ErrUnknown, eventID, s.Chapter)
	}
	var w witness
	if w, err = s.ask(ctx, &t, backlog); err != nil {
		return Trail{}, err
	}
	if w.asked {
		if t, err = s.read(ctx, eventID); err != nil {
			return Trail{}, err
		}
	}
	t.judge(w)
	return t, nil
}

// ask asks what the first reading leaves open, and nothing else.
func (s Source) ask(ctx context.Context, t *Trail, backlog Backlog) (w witness, err error) {
	switch {
	case t.Order == nil && t.InDoubt == nil && t.hasEffect():
		return s.writers(ctx, t.firstEffect())
	case t.missing() && s.Log:
		return s.askLog(ctx, t, backlog)
	case t.missing() && t.settledFor() > 0:
		w.asked = true
		w.backlog, w.backlogErr = backlog(ctx, t.Chapter, t.Bus)
	}
	return w, nil
}

// missing tells whether the event should have been handled and was not.
func (t *Trail) missing() bool {
	sent := t.Outbox == nil || t.Outbox.Status == "sent" || t.log && t.Outbox.Status == "pending"
	return t.Order != nil && sent && !t.hasEffect()
}

// settledFor is how long the event has been beyond the time in which it may still
// come without the bus counting it. Negative: not yet.
func (t *Trail) settledFor() time.Duration {
	silence := Redelivery(t.Bus)
	if t.elsewhere && t.Bus == "rabbitmq" {
		silence = rabbitElsewhere
	}
	if t.Outbox != nil && t.Outbox.SentAt != nil {
		return t.AsOf.Sub(*t.Outbox.SentAt) - silence
	}
	return t.AsOf.Sub(t.Order.CreatedAt) - max(silence, publishLimit)
}
