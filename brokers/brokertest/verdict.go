package brokertest

import (
	"bytes"
	"fmt"
	"strings"

	"outboxplayground/core/bus"
)

// terms say what a check's circumstances excuse.
type terms struct {
	repeats bool  // a message may come again without a handler error
	settled int   // so may the first so many, published before the bus had settled
	losses  bool  // accepted messages may be lost (a crash of a bus that is not durable)
	ordered Order // the order to judge
}

// verdict reads the ledger for one topic and group.
func (l *ledger) verdict(topic, group string, t terms) []Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	byID := map[string][]*delivery{}
	for _, d := range l.got[group] {
		byID[d.msg.ID] = append(byID[d.msg.ID], d)
	}
	found := l.fatesOf(topic, group, byID, t)
	found = append(found, l.contents(group)...)
	return append(found, l.sequence(group, t.ordered)...)
}

// tally collects the ids that break one rule and turns them into one violation.
type tally struct {
	rule   Rule
	detail string // with one %d for the count and one %s for the group
	ids    []string
}

func (t tally) violations(group string) []Violation {
	if len(t.ids) == 0 {
		return nil
	}
	return []Violation{{Rule: t.rule, IDs: firstFew(t.ids),
		Detail: fmt.Sprintf(t.detail, len(t.ids), group)}}
}

// fatesOf compares what the publisher was told with what the group got.
func (l *ledger) fatesOf(topic, group string, byID map[string][]*delivery, t terms) []Violation {
	lost := tally{rule: Lost, detail: "%d accepted messages never reached group %q"}
	failing := tally{rule: NotRedelivered, detail: "%d messages whose handler failed never came again to group %q"}
	ghost := tally{rule: Ghost, detail: "%d messages reported unavailable arrived at group %q"}
	undead := tally{rule: Undead, detail: "%d messages reported rejected arrived at group %q"}
	twice := tally{rule: Duplicated, detail: "%d messages came again without a cause to group %q"}
	for _, id := range l.order {
		f, ds := l.fates[id], byID[id]
		if f.msg.Topic != topic {
			continue
		}
		switch {
		case len(ds) == 0 && f.class == bus.Accepted && !t.losses:
			lost.ids = append(lost.ids, l.label(f))
		case len(ds) > 0 && f.class == bus.Unavailable:
			ghost.ids = append(ghost.ids, l.label(f))
		case len(ds) > 0 && f.class == bus.Rejected:
			undead.ids = append(undead.ids, l.label(f))
		case len(ds) > 0 && f.class == bus.Accepted && acks(ds) == 0:
			failing.ids = append(failing.ids, l.label(f))
		}
		if !t.repeats && f.place >= t.settled && acks(ds) > max(1, f.asked) {
			twice.ids = append(twice.ids, l.label(f))
		}
	}
	var found []Violation
	for _, t := range []tally{lost, failing, ghost, undead, twice} {
		found = append(found, t.violations(group)...)
	}
	return found
}

func acks(ds []*delivery) int {
	n := 0
	for _, d := range ds {
		if d.acked {
			n++
		}
	}
	return n
}

func (l *ledger) label(f *fate) string { return fmt.Sprintf("#%d %s", f.place+1, f.msg.ID) }

// contents compares every delivery with what was published.
func (l *ledger) contents(group string) []Violation {
	strangers := tally{rule: Stranger, detail: "%d deliveries that nobody published came to group %q"}
	var found []Violation
	for _, d := range l.got[group] {
		f := l.fates[d.msg.ID]
		if f == nil {
			strangers.ids = append(strangers.ids, d.msg.ID)
		} else if len(found) == 0 { // one is enough, all the others look alike
			found = append(found, compare(l.label(f), f.msg, d.msg)...)
		}
	}
	return append(found, strangers.violations(group)...)
}

func compare(label string, want, got bus.Message) []Violation {
	var found []Violation
	add := func(r Rule, format string, args ...any) {
		found = append(found, Violation{Rule: r, Detail: fmt.Sprintf(format, args...), IDs: []string{label}})
	}
	if !bytes.Equal(want.Payload, got.Payload) {
		add(Mangled, "payload of %d bytes arrived as %d bytes, first difference at %d",
			len(want.Payload), len(got.Payload), firstDifference(want.Payload, got.Payload))
	}
	if want.Key != got.Key || want.Topic != got.Topic {
		add(Mangled, "key %q and topic %q arrived as %q and %q", want.Key, want.Topic, got.Key, got.Topic)
	}
	for name, value := range want.Headers {
		if v, ok := got.Headers[name]; !ok || v != value {
			add(Headers, "header %q: %q arrived as %q (present: %t)", name, value, v, ok)
			break
		}
	}
	for name := range got.Headers {
		if _, ok := want.Headers[name]; !ok && !strings.HasPrefix(name, "outbox-") {
			add(Headers, "header %q arrived and was never sent", name)
			break
		}
	}
	return found
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// sequence finds the first message that overtook another one of its scope. It
// looks at first deliveries only: a repeat is out of order by its nature.
func (l *ledger) sequence(group string, o Order) []Violation {
	if o == Unordered {
		return nil
	}
	seen, last := map[string]bool{}, map[string]*fate{}
	for _, d := range l.got[group] {
		f := l.fates[d.msg.ID]
		if f == nil || seen[d.msg.ID] {
			continue
		}
		seen[d.msg.ID] = true
		scope := ""
		if o == PerKey {
			scope = f.msg.Key
		}
		if before := last[scope]; before != nil && before.place > f.place {
			return []Violation{{Rule: Reordered, IDs: []string{l.label(before), l.label(f)},
				Detail: fmt.Sprintf("group %q got the later message of %s %q first", group, o, scope)}}
		}
		last[scope] = f
	}
	return nil
}
