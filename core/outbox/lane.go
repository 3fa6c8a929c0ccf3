package outbox

import "time"

// lane is what a relay remembers of its bus between two cycles. It belongs to the
// goroutine of Step or Run.
type lane struct {
	cursor    int64         // the claims have come this far
	full      bool          // the last claim took all it could: there is a backlog
	swept     time.Time     // when a claim last began from 0
	claimed   time.Time     // when the last claim began
	sweepTook time.Duration // the last of them
	flight    map[int64]time.Time
	trouble   int   // publishes in a row that point at the broker
	probed    int64 // the row that was published last while there is trouble; 0 before the first
	dbErrors  int   // database errors in a row
}

// lookBack is how far behind the cursor a claim begins. Ids are not commit order:
// of transactions that run side by side a lower id may become visible later, and
// should not have to wait for the next sweep. It is short against the dead index
// entries that a long snapshot keeps at the front, which the cursor is there to skip.
// In a backlog it would be read again for every batch; there the sweep is enough.
const lookBack = 1000

// sweepShare keeps sweeps to a twentieth of the time: while somebody holds a snapshot a
// sweep reads all that has been sent since, and takes longer and longer.
const sweepShare = 20

// want says what the next claim is after. A lane in trouble asks for one row, the oldest
// first and then the one behind the last: where only a destination is away, a row for
// another one gets through, and says that the broker is there. Else a claim begins near
// the cursor, and once in a poll interval from 0.
func (l *lane) want(cfg Config, bus string) Want {
	w := Want{Bus: bus, Limit: cfg.Batch, Except: l.inHand(term(cfg.Queue))}
	switch now := time.Now(); {
	case l.trouble > 0:
		w.Limit, w.After = 1, l.probed
	case now.Sub(l.swept) < max(cfg.Poll, sweepShare*l.sweepTook):
		w.After = l.cursor
		if !l.full {
			w.After = max(0, l.cursor-lookBack)
		}
	default:
		l.swept = now
	}
	return w
}

// advance moves the cursor behind what a claim has brought. A full batch may come
// from a sweep that met many old rows: the next claims go on from there.
func (l *lane) advance(rows []Entry, full bool) {
	if l.full = full; len(rows) == 0 {
		return
	}
	if last := rows[len(rows)-1].ID; full || last > l.cursor {
		l.cursor = last
	}
}

// look moves the probe on, and back to the oldest row when there is none behind it.
func (l *lane) look(rows []Entry) {
	if l.probed = 0; l.trouble > 0 && len(rows) > 0 {
		l.probed = rows[0].ID
	}
}

// sweepNext makes the next claim begin from 0: rows behind the cursor are due.
func (l *lane) sweepNext() { l.swept = time.Time{} }

func (l *lane) take(rows []Entry, at time.Time) {
	if l.flight == nil {
		l.flight = map[int64]time.Time{}
	}
	for _, e := range rows {
		l.flight[e.ID] = at
	}
}

func (l *lane) drop(rows []Entry) {
	for _, e := range rows {
		delete(l.flight, e.ID)
	}
}

// inHand lists the rows under way that the database may not know to be so: all of
// them without leases, and those whose lease is half over.
func (l *lane) inHand(term time.Duration) (list []int64) {
	old := time.Now().Add(-term / 2)
	for id, since := range l.flight {
		if !since.After(old) {
			list = append(list, id)
		}
	}
	return list
}

// term is how long a claim keeps others away; 0 where it does not.
func term(q Queue) time.Duration {
	if t, ok := q.(interface{ Term() time.Duration }); ok {
		return t.Term()
	}
	return 0
}
