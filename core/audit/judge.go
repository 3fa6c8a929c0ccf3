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

// judge fills in Verdict, Valid and Why.
func (t *Trail) judge(w witness) {
	v := &t.Verdict
	if t.log && t.Outbox != nil && t.Outbox.Status == "pending" && t.sent(w) {
		t.Outbox.Status = "sent" // nobody writes that down
	}
	if t.Order != nil {
		v.Orders, v.Delivered = 1, min(1, len(t.Emails))
	}
	v.Duplicated = b2i(len(t.Emails) > 1)
	switch {
	case t.Order == nil:
		t.judgeOrphan(w)
	case t.Outbox != nil && t.Outbox.Status == "failed":
		v.Stuck = 1
		t.Why = "the outbox row has failed: nothing more happens until a person retries it"
	case t.log && t.Order != nil && !t.handed(w):
		t.judgeLogged()
	case !t.log && t.Outbox != nil && t.Outbox.Status == "pending":
		v.Pending = 1
		t.Why = "the outbox row is pending: the worker has not had it marked as sent"
	case t.parked() != nil:
		t.judgeParked(t.parked())
	case t.missing():
		t.judgeMissing(w)
	case len(t.Emails) == 0 && w.over:
		v.Lost = 1
		t.Why = "the listener noted the event, there is no email, and nothing can bring one any more"
	case len(t.Emails) == 0:
		v.Pending = 1
		t.Why = "the listener noted the event but no email is there: the effect is not to be told"
	default:
		t.Why = "the order and its email are there"
	}
	if v.Duplicated == 1 {
		t.Why += fmt.Sprintf("; %d emails were sent for one event", len(t.Emails))
	}
	if n := t.absorbed(); n > 0 {
		t.Why += fmt.Sprintf("; further deliveries without effect: %d", n)
	}
	t.Valid = v.Valid()
}

// judgeParked: a dead letter waits for a person, or for the replay that one asked for.
func (t *Trail) judgeParked(d *DeadLetter) {
	if d.Status == "requested" {
		t.Verdict.Pending = 1
		t.Why = fmt.Sprintf("the listener gave the event up, and a replay of dead letter %d was asked for", d.ID)
		return
	}
	t.Verdict.Stuck = 1
	t.Why = fmt.Sprintf("the listener gave the event up after %d attempts: nothing more happens until a person replays dead letter %d",
		d.Attempts, d.ID)
}

// judgeMissing tells lost from not yet: only a bus that holds nothing any more
// makes a late event impossible.
func (t *Trail) judgeMissing(w witness) {
	v := &t.Verdict
	v.Pending = 1
	switch {
	case w.over:
		v.Pending, v.Lost = 0, 1
		t.Why = "the order is committed, there is no email, and nothing can bring one any more"
	case !w.log.waited && t.settledFor() <= 0:
		t.Why = fmt.Sprintf("no email yet, and %s may still deliver the event", t.Bus)
	case !w.asked:
		t.Why = "no email yet, and the bus was not asked what it holds"
	case w.backlogErr != nil:
		t.Why = fmt.Sprintf("no email, and %s cannot be asked now whether it still holds the event", t.Bus)
	case w.backlog > 0:
		t.Why = fmt.Sprintf("no email yet; %s still holds %d messages for the listener", t.Bus, w.backlog)
	default:
		v.Pending, v.Lost = 0, 1
		t.Why = w.log.why(t.Bus) + fmt.Sprintf("the order is committed, there is no email, and %s holds nothing that could bring one", t.Bus)
	}
}

// judgeOrphan tells a phantom from an order that is still being committed.
func (t *Trail) judgeOrphan(w witness) {
	v := &t.Verdict
	v.Pending = 1
	switch {
	case t.parked() != nil:
		v.Pending = 0
		t.judgeParked(t.parked())
	case t.InDoubt != nil:
		v.Pending = 0
		t.judgeInDoubt(w)
	case !t.hasEffect():
		t.Why = "there is an outbox row but no order; nothing has come of it so far"
	case w.over:
		v.Pending, v.Phantom = 0, 1
		t.Why = "the event was handled, and there is no order"
	case !w.asked || !t.firstEffect().Before(w.at):
		t.Why = "the event was handled and there is no order; too fresh to be told"
	case w.open > 0:
		t.Why = fmt.Sprintf("the event was handled and there is no order, but %d transactions from that time are still open", w.open)
	default:
		v.Pending, v.Phantom = 0, 1
		t.Why = "the event was handled, there is no order, and no transaction that could still write it is open"
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
