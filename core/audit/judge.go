package audit

import "fmt"

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
