package lab

import "outboxplayground/core/audit"

// eventTrails joins the tables, the clients' answers and the journal, in the order
// of the run.
func (r *run) eventTrails(trails map[string]audit.Trail) []EventTrail {
	lines := map[string][]Line{}
	for _, l := range r.journal.all() {
		if l.EventID != "" && l.Step != sayArmed {
			lines[l.EventID] = append(lines[l.EventID], l)
		}
	}
	events := make([]EventTrail, 0, len(r.ids))
	for i, id := range r.ids {
		t, ok := trails[id]
		if !ok {
			t = audit.None(r.chapter.Number, r.spec.Bus, id)
		}
		if t.Bus == "" {
			t.Bus = r.spec.Bus // in doubt: no row that names it can be read
		}
		events = append(events, EventTrail{Order: i + 1, Answer: r.answers[i], Trail: t, Timeline: lines[id]})
	}
	return events
}

// late counts the affected events that were delivered after the outage had ended.
func (r *run) late(events []EventTrail) (n int) {
	if len(r.outages) == 0 || r.outages[0].end.IsZero() {
		return 0
	}
	end := r.outages[0].end
	for _, e := range events {
		affected := e.Order >= r.span.from && e.Order <= r.span.to
		if affected && len(e.Trail.Emails) > 0 && e.Trail.Emails[0].SentAt.After(end) {
			n++
		}
	}
	return n
}
