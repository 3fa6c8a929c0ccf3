package audit

import (
	"context"
	"fmt"
	"time"
)

// Where the log is the queue, no row says whether an event was sent: its slot has a
// position instead. What was committed before that position has been delivered. The
// position of a COMMIT is in no table either; but whatever a query sees was committed
// before the end of the log at that moment (COMMIT reaches the disk before anybody sees
// what it wrote). So: see the row, read the end of the log, and wait until the slot has
// come that far.
const (
	// A slot belongs to the whole server, so its name ends with the number of the database.
	slotEnding = ` || '_' || (SELECT oid FROM pg_database WHERE datname = current_database())`

	readLogEnd = `SELECT pg_current_wal_flush_lsn()::text`

	// A slot that is gone, or whose log is, will deliver nothing any more.
	readPassed = `
SELECT coalesce((SELECT wal_status <> 'lost' FROM pg_replication_slots WHERE slot_name = current_schema() || '_' || $1` + slotEnding + `), false),
	coalesce((SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = current_schema() || '_' || $1` + slotEnding + `), false)`

	// A row behind the confirmed position has not been delivered, however long one waits. One
	// that was written before its slot was made is delivered only if it was committed
	// afterwards. A slot whose maker died before it was noted begins no later than where it
	// stands.
	readRowInLog = `
SELECT coalesce(o.lsn >= s.confirmed_flush_lsn, false),
	coalesce(o.lsn < (SELECT max(coalesce(n.since, s.confirmed_flush_lsn)) FROM slots n WHERE n.bus = o.bus), false)
FROM outbox o LEFT JOIN pg_replication_slots s ON s.slot_name = current_schema() || '_' || o.bus` + slotEnding + `
WHERE o.event_id = $1`
)

// LogEnd is where the log ends now. Everything that an earlier query has seen was
// committed before.
func LogEnd(ctx context.Context, db DB) (at string, err error) {
	err = db.QueryRow(ctx, readLogEnd).Scan(&at)
	return at, err
}

// Passed tells whether the slot of a bus has delivered everything before a position.
// exists is false when it will deliver nothing any more.
func Passed(ctx context.Context, db DB, busName, at string) (exists, passed bool, err error) {
	err = db.QueryRow(ctx, readPassed, busName, at).Scan(&exists, &passed)
	return exists, passed, err
}

// What was asked about the log.
type logWitness struct {
	passed bool // the slot has delivered everything that was committed when we looked
	gone   bool // there is no slot that could deliver it
	older  bool // the event was written before its slot was made, and that has passed it
	waited bool // the bus had its time to deliver after that
}

// handed tells whether the log has nothing more to say of the event.
func (t *Trail) handed(w witness) bool { return t.sent(w) || w.log.gone || w.log.older }

// sent tells whether the event has been published.
func (t *Trail) sent(w witness) bool { return t.hasEffect() || w.over || w.log.passed }

// passLimit is how long a slot gets to pass the end of the log: a lane that works needs
// milliseconds, one that stands does not come.
const passLimit = time.Second

// askLog asks the slot, and then the bus. No row says when the event was sent, so the
// silence in which a bus may deliver it once more begins now.
func (s Source) askLog(ctx context.Context, t *Trail, backlog Backlog) (w witness, err error) {
	end, err := LogEnd(ctx, s.DB)
	if err != nil {
		return w, fmt.Errorf("audit: the end of the log: %w", err)
	}
	var behind, older bool
	if t.Outbox != nil {
		if err := s.DB.QueryRow(ctx, readRowInLog, t.EventID).Scan(&behind, &older); err != nil {
			return w, fmt.Errorf("audit: the row's place in the log: %w", err)
		}
	}
	if w.log.gone, w.log.passed, err = s.awaitPassed(ctx, t.Bus, end, behind); err != nil {
		return w, fmt.Errorf("audit: the slot of %s: %w", t.Bus, err)
	}
	if w.log.older = older && w.log.passed; w.log.older {
		w.log.passed = false // it has passed the place; most likely it did not bring the event
	}
	if !t.handed(w) || s.Elsewhere && t.Bus == "rabbitmq" || !wait(ctx, Redelivery(t.Bus)) {
		return w, nil
	}
	w.asked, w.log.waited = true, true
	w.backlog, w.backlogErr = backlog(ctx, t.Chapter, t.Bus)
	return w, nil
}

func (s Source) awaitPassed(ctx context.Context, busName, end string, once bool) (gone, passed bool, err error) {
	for until := time.Now().Add(passLimit); ; {
		exists, passed, err := Passed(ctx, s.DB, busName, end)
		if err != nil || !exists || passed || once || time.Now().After(until) {
			return !exists, passed, err
		}
		if !wait(ctx, 20*time.Millisecond) {
			return false, false, ctx.Err()
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// judgeLogged judges an event that its slot has not passed yet.
func (t *Trail) judgeLogged() {
	t.Verdict.Pending = 1
	t.Why = fmt.Sprintf("no email yet, and the slot of %s has not confirmed the log up to this event", t.Bus)
}

// why says why the log will not bring the event, as the beginning of a sentence.
func (w logWitness) why(busName string) string {
	switch {
	case w.older:
		return "the event was written before the slot of " + busName + " was made, and the one before it is gone: the log will not bring it; "
	case w.gone:
		return "there is no slot for " + busName + " any more, so nothing in the log will ever be delivered; "
	case w.passed:
		return "the slot of " + busName + " has passed the event; "
	}
	return ""
}
