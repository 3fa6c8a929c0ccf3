package picture

import (
	"strings"
	"time"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
)

// laneName is a lane in words; a role that is not known here has its own name.
func (t *teller) laneName(key string) string { return laneName(t.say, key) }

func laneName(say Say, key string) string {
	const prefix = "picture.lane."
	if name := say(prefix + key); name != prefix+key {
		return name
	}
	return key
}

// answer is what the client heard.
func (t *teller) answer(l lab.Line) {
	code, why, _ := strings.Cut(l.Text, " ")
	switch {
	case strings.HasPrefix(code, "2"):
		t.add(l, laneService, laneClient, Done, "created", code)
	case len(code) == 3 && code[0] >= '4' && code[0] <= '5':
		t.add(l, laneService, laneClient, Fail, "refused", code)
		t.steps[len(t.steps)-1].Raw = why
	default:
		t.add(l, laneClient, laneClient, Fail, "silence")
		return
	}
	t.steps[len(t.steps)-1].Word = code
}

// commit joins before-commit and after-commit. Alone, the first one is a transaction
// that is still open.
func (t *teller) commit(i int) {
	l, to, key, sign := t.lines[i], laneOrders, "commit", Done
	if l.Step == string(checkpoint.BeforeCommit) && !t.follows(i, checkpoint.AfterCommit, time.Minute) {
		key, sign = "insert", Open
	}
	if t.outbox {
		to, key = laneOutbox, key+"-outbox"
	}
	t.add(l, laneService, to, sign, key)
	if t.outbox {
		t.steps[len(t.steps)-1].Also = []string{laneOrders}
	}
}

// publish joins the question and the answer, unless somebody stood still in between.
func (t *teller) publish(i int) {
	l, from := t.lines[i], lane(t.lines[i].Label)
	who := t.laneName(from)
	switch {
	case l.Step == stepFailed:
		t.failed[l.Label] = true
		t.publishFailed(l, from)
	case l.Step == string(checkpoint.AfterPublish) || t.follows(i, checkpoint.AfterPublish, time.Second):
		t.failed[l.Label] = false
		t.add(l, from, laneBroker, Done, "published", who)
	default:
		if j := t.next(i); j > 0 && t.lines[j].Step == stepFailed {
			return // the failure tells it
		}
		t.add(l, from, from, Open, "before-publish", who)
	}
}

// publishFailed tells the class of the failure, which the driver has decided; what it
// said is kept beside it.
func (t *teller) publishFailed(l lab.Line, from string) {
	class, raw, _ := strings.Cut(l.Text, ": ")
	key := "publish-failed." + class
	if prefix := "picture.word."; t.say(prefix+key) == prefix+key {
		key, raw = "publish-failed", l.Text
	}
	t.add(l, from, laneBroker, Fail, key, t.laneName(from))
	t.steps[len(t.steps)-1].Raw = raw
}

// next is the index of the next line of the same role, 0 if there is none.
func (t *teller) next(i int) int {
	for j := i + 1; j < len(t.lines); j++ {
		if t.lines[j].Label == t.lines[i].Label {
			return j
		}
	}
	return 0
}

// mark is the update of the row. Whether it changed anything is in the table, not here:
// a relay that has lost its lease is refused.
func (t *teller) mark(i int) {
	l, from := t.lines[i], lane(t.lines[i].Label)
	who := t.laneName(from)
	switch {
	case t.failed[l.Label]:
		t.failed[l.Label] = false
		t.follows(i, checkpoint.AfterMark, time.Minute)
		t.add(l, from, laneOutbox, Fail, "noted", who)
	case l.Step == string(checkpoint.AfterMark) || t.follows(i, checkpoint.AfterMark, soon):
		t.add(l, from, laneOutbox, Done, "marked", who)
	default:
		t.add(l, from, from, Open, "before-mark", who)
	}
}

// effect is the listener's part: the delivery, the email, the acknowledgement.
func (t *teller) effect(i int) {
	l, at := t.lines[i], lane(t.lines[i].Label)
	switch checkpoint.Name(l.Step) {
	case checkpoint.BeforeEffect:
		t.add(l, laneBroker, at, Done, "delivered")
		if j := t.next(i); j > 0 && t.lines[j].Step == string(checkpoint.BeforeAck) {
			t.told[j] = true
			t.add(t.lines[j], at, laneBroker, Open, "absorbed")
		}
	case checkpoint.AfterEffect:
		key := "email"
		if t.follows(i, checkpoint.BeforeAck, soon) {
			key = "email-ack"
		}
		t.add(l, at, at, Email, key)
	default:
		t.add(l, at, laneBroker, Done, "ack")
	}
}
