package cdc

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/outbox"
)

// AlarmBytes is how much of the log a slot may keep before it is alarming: four files of
// it. A lane that works keeps what one checkpoint interval writes.
const AlarmBytes = 64 << 20

// Slot is how a lane stands. Positions are in the server's own notation.
type Slot struct {
	Bus    string `json:"bus"`
	Name   string `json:"name"`
	Exists bool   `json:"exists"`
	// Active: somebody reads from it now.
	Active bool `json:"active"`
	// RetainedBytes is how much of the log the server keeps for it.
	RetainedBytes int64 `json:"retained_bytes"`
	// BehindBytes is how far the confirmed position is behind the end of the log.
	BehindBytes int64  `json:"behind_bytes"`
	Confirmed   string `json:"confirmed,omitempty"`
	// Since is where it begins: what was committed before, it never delivers. Empty while
	// it is being made, or when its maker died over that.
	Since  string    `json:"since"`
	MadeAt time.Time `json:"made_at"`
	// Alarm says what a person has to look at; empty is well.
	Alarm string `json:"alarm,omitempty"`
}

const listSlots = `
SELECT DISTINCT ON (l.bus) l.bus, ` + slotSQL + `, s.slot_name IS NOT NULL,
	coalesce(s.active, false), coalesce(pg_current_wal_lsn() - s.restart_lsn, 0)::bigint,
	coalesce(greatest(pg_current_wal_lsn() - s.confirmed_flush_lsn, 0), 0)::bigint,
	coalesce(s.confirmed_flush_lsn::text, ''), coalesce(l.since::text, ''), l.made_at, coalesce(s.wal_status, '')
FROM slots l LEFT JOIN pg_replication_slots s ON s.slot_name = ` + slotSQL + `
ORDER BY l.bus, l.id DESC`

// Slots tells how every lane stands that was ever prepared in the schema of db.
func Slots(ctx context.Context, db Querier) ([]Slot, error) {
	rows, err := db.Query(ctx, listSlots)
	if err != nil {
		return nil, fmt.Errorf("cdc: slots: %w", err)
	}
	slots, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Slot, err error) {
		var status string
		err = row.Scan(&s.Bus, &s.Name, &s.Exists, &s.Active, &s.RetainedBytes, &s.BehindBytes,
			&s.Confirmed, &s.Since, &s.MadeAt, &status)
		s.MadeAt, s.Alarm = s.MadeAt.UTC(), s.alarm(status)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("cdc: slots: %w", err)
	}
	return slots, nil
}

func (s Slot) alarm(status string) string {
	switch {
	case s.Since == "":
		return "a slot is being made, or its maker has died: what is written until it is there is lost to every reader; a new start ends this"
	case !s.Exists:
		return "the slot is gone: what it had not delivered is lost, and so is what is written until there is a new one"
	case status == "lost":
		return "the server has removed log that the slot had not delivered: it is lost"
	case s.RetainedBytes >= AlarmBytes && !s.Active:
		return fmt.Sprintf("nobody reads, and the server keeps %d MB of its log for that", s.RetainedBytes>>20)
	case s.RetainedBytes >= AlarmBytes:
		return fmt.Sprintf("the server keeps %d MB of its log for this slot", s.RetainedBytes>>20)
	}
	return ""
}

// A row is pending when it was written behind the position that its slot has confirmed.
// The position of a row is that of its INSERT; its COMMIT is later, so that a row whose
// transaction was open when the slot passed is counted as sent too early. For a single
// event the audit asks more strictly. Where the slot is gone, nobody knows, and all that
// was written since it was made counts, or everything while the first one is being made.
const countRows = `
SELECT o.bus, count(*) FILTER (WHERE o.status = 'failed'),
	count(*) FILTER (WHERE o.status = 'pending' AND o.lsn >= s.confirmed),
	count(*) FILTER (WHERE o.status = 'pending' AND o.lsn < s.confirmed),
	(extract(epoch FROM clock_timestamp() -
		min(o.created_at) FILTER (WHERE o.status = 'pending' AND o.lsn >= s.confirmed)) * 1000)::bigint
FROM outbox o JOIN (
	SELECT DISTINCT ON (l.bus) l.bus, coalesce(r.confirmed_flush_lsn, (SELECT max(since) FROM slots n WHERE n.bus = l.bus), '0/0') AS confirmed
	FROM slots l LEFT JOIN pg_replication_slots r ON r.slot_name = ` + slotSQL + `
	ORDER BY l.bus, l.id DESC) s USING (bus)
GROUP BY o.bus`

// ReadStats counts the rows of an outbox in which nobody writes down what was sent.
func ReadStats(ctx context.Context, db Querier) (outbox.Stats, error) {
	s := outbox.Stats{ByBus: map[string]outbox.Counts{}}
	rows, err := db.Query(ctx, countRows)
	if err != nil {
		return s, fmt.Errorf("cdc: stats: %w", err)
	}
	var name string
	var c outbox.Counts
	into := []any{&name, &c.Failed, &c.Pending, &c.Sent, &c.OldestPendingLagMS}
	_, err = pgx.ForEachRow(rows, into, func() error {
		s.ByBus[name] = c
		s.Failed, s.Pending, s.Sent = s.Failed+c.Failed, s.Pending+c.Pending, s.Sent+c.Sent
		if lag := c.OldestPendingLagMS; lag != nil && (s.OldestPendingLagMS == nil || *lag > *s.OldestPendingLagMS) {
			s.OldestPendingLagMS = lag
		}
		c = outbox.Counts{}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("cdc: stats: %w", err)
	}
	return s, nil
}
