package web

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/cdc"
	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
)

// metricsAnswer has the article's path: .reliability.outbox.pending.
type metricsAnswer struct {
	AsOf        time.Time `json:"as_of"`
	Chapter     int       `json:"chapter"`
	Reliability struct {
		Outbox outboxFigures `json:"outbox"`
		// Inbox counts the dead letters, where the chapter has some.
		Inbox *inbox.Stats `json:"inbox,omitempty"`
	} `json:"reliability"`
	Next []next `json:"next"`
}

type outboxFigures struct {
	outbox.Stats
	Paused bool `json:"paused"`
	// Listeners count, by bus, the sessions that hear what the trigger notifies, in
	// whatever process; a bus with 0 is polled. Absent where nobody is meant to listen.
	Listeners map[string]int `json:"listeners,omitempty"`
	// Slots are what a relay that reads the log has instead of marks on the rows.
	Slots []cdc.Slot `json:"slots,omitempty"`

	inbox *inbox.Stats
}

func (s *server) metrics(c *gin.Context) {
	ch, p := s.withOutbox(c)
	if p != nil {
		fail(c, p)
		return
	}
	figures, err := s.figures(c.Request.Context(), ch)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	if wanted(c.Request) == asPrometheus {
		s.prometheus(c, ch, figures)
		return
	}
	a := &metricsAnswer{AsOf: s.opt.Now().UTC(), Chapter: ch.Number}
	a.Reliability.Outbox, a.Reliability.Inbox = figures, figures.inbox
	chapter := strconv.Itoa(ch.Number)
	if figures.Failed > 0 {
		a.Next = append(a.Next, next{"the failed rows", curl(c, http.MethodGet, "/admin/outbox/failed", "chapter", chapter)})
	}
	if i := figures.inbox; i != nil && i.Dead > 0 {
		a.Next = append(a.Next, next{"the dead letters", curl(c, http.MethodGet, "/admin/dead-letters", "chapter", chapter)})
	}
	a.Next = append(a.Next, next{"look again", curl(c, http.MethodGet, "/metrics", "chapter", chapter)})
	if wantsPage(c) {
		s.showMetrics(c, ch, a)
		return
	}
	reply(c, http.StatusOK, a)
}

// figures reads the counts and the pause in one transaction. A bus without rows
// has zeros, not a gap.
func (s *server) figures(ctx context.Context, ch lab.Chapter) (f outboxFigures, err error) {
	err = pgx.BeginFunc(ctx, s.live.DB(ch.Number), func(tx pgx.Tx) error {
		if err := f.readRows(ctx, tx, ch); err != nil {
			return err
		}
		if ch.Listens {
			if f.Listeners, err = outbox.Listening(ctx, tx, outbox.Channel(ch.Schema())); err != nil {
				return err
			}
		}
		if ch.DeadLetters {
			letters, err := inbox.ReadStats(ctx, tx)
			if f.inbox = &letters; err != nil {
				return err
			}
		}
		// Last: a switch waits until whoever has read it is done, and counting can take long.
		open, err := pg.Gate(ch.Schema())(ctx, tx)
		f.Paused = !open
		return err
	})
	if err != nil {
		return f, err
	}
	for _, b := range s.live.Buses() {
		if _, has := f.ByBus[b.Name]; !has {
			f.ByBus[b.Name] = outbox.Counts{}
		}
		if f.Listeners != nil {
			f.Listeners[b.Name] += 0
		}
	}
	return f, nil
}

// readRows counts the rows, and reads the slots where there are any.
func (f *outboxFigures) readRows(ctx context.Context, tx pgx.Tx, ch lab.Chapter) (err error) {
	if f.Stats, err = readStats(ctx, tx, ch); err != nil || !ch.Log {
		return err
	}
	f.Slots, err = cdc.Slots(ctx, tx)
	return err
}

// readStats counts by status, or, where nobody marks a row, by the slots' positions.
func readStats(ctx context.Context, db outbox.Querier, ch lab.Chapter) (outbox.Stats, error) {
	if ch.Log {
		return cdc.ReadStats(ctx, db)
	}
	return outbox.ReadStats(ctx, db)
}

// WriteText writes the figures as aligned text.
func (a *metricsAnswer) WriteText(out io.Writer) error {
	o := a.Reliability.Outbox
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "outbox of chapter %d\tpending\toldest\tfailed\tsent\n", a.Chapter)
	writeCounts(w, "all", o.Counts)
	for _, name := range slices.Sorted(maps.Keys(o.ByBus)) {
		writeCounts(w, name, o.ByBus[name])
	}
	writeSlots(w, o.Slots)
	writeListeners(w, o.Listeners)
	if i := a.Reliability.Inbox; i != nil {
		fmt.Fprintf(w, "\ndead letters\t%d\nreplays under way\t%d\nreplayed\t%d\n", i.Dead, i.Requested, i.Replayed)
	}
	fmt.Fprintf(w, "\npaused\t%t\nas of\t%s\n", o.Paused, a.AsOf.Format(time.RFC3339Nano))
	return w.Flush()
}

func writeListeners(w io.Writer, heard map[string]int) {
	if heard == nil {
		return
	}
	fmt.Fprintf(w, "\nlistening for\tsessions\n")
	for _, name := range slices.Sorted(maps.Keys(heard)) {
		fmt.Fprintf(w, "%s\t%d\n", name, heard[name])
	}
}

func writeCounts(w io.Writer, name string, n outbox.Counts) {
	lag := "-"
	if n.OldestPendingLagMS != nil {
		lag = fmt.Sprintf("%d ms", *n.OldestPendingLagMS)
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\n", name, n.Pending, lag, n.Failed, n.Sent)
}

func writeSlots(w io.Writer, slots []cdc.Slot) {
	if len(slots) == 0 {
		return
	}
	fmt.Fprintf(w, "\nslot\treader\tkeeps\tbehind\talarm\n")
	for _, s := range slots {
		reader, alarm := "none", "-"
		if s.Active {
			reader = "active"
		}
		if s.Alarm != "" {
			alarm = "⚠ " + s.Alarm
		}
		fmt.Fprintf(w, "%s\t%s\t%d kB\t%d B\t%s\n", s.Name, reader, s.RetainedBytes>>10, s.BehindBytes, alarm)
	}
}
