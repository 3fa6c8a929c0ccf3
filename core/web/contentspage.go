package web

import (
	"context"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// contentsPage is the first page: the story, the path through the chapters, and the
// article's own table with what was measured here.
type contentsPage struct {
	Chapters []chapterLink
	Start    *chapterLink // where to go on; nil where all has been done
	Begun    bool         // the reader has been somewhere already
	Columns  []column
	Rows     []situation
	Unread   bool // the stored runs could not be read
	Buses    []lab.BusInfo
}

// chapterLink is a stop on the path.
type chapterLink struct {
	lab.Chapter
	Ran, Opened bool
}

// column is a way of doing it, as the article's table has it.
type column struct {
	Chapter lab.Chapter
	Variant string
	Head    string // a key of the words
}

// situation is a row of the table.
type situation struct {
	Fault string
	Cells []cell
}

// cell is what was measured, or where it can be.
type cell struct {
	Report   *lab.Report // nil: not measured here
	Outcomes []outcomeCount
	NA       bool
	Link     string // to the experiment
}

// situations are the faults of the article's section 7, in its order.
func situations() []string { return []string{"rollback", "broker-down", "crash-after-commit"} }

// columns are the article's three, the first of which is two here: its plain event()
// stands inside the transaction or after it. The outbox stands in the article's own
// form and in the one that outlasts an outage.
func (s *server) columns() (list []column) {
	for _, want := range []struct {
		chapter       int
		variant, head string
	}{{1, "publish-first", "table.inside"}, {1, "write-first", "table.after"}, {2, "", "table.aftercommit"},
		{3, "", "table.outbox"}, {4, "", "table.patient"}} {
		ch, ok := s.live.Chapter(want.chapter)
		if v, has := ch.Variant(want.variant); ok && has {
			list = append(list, column{ch, v.Name, want.head})
		}
	}
	return list
}

func (s *server) contentsPage(c *gin.Context) {
	come := progressOf(c)
	d := &contentsPage{Columns: s.columns(), Buses: s.live.Buses()}
	for _, ch := range s.live.Chapters() {
		far, begun := come[ch.Number]
		d.Chapters = append(d.Chapters, chapterLink{ch, far == ran, far == opened})
		d.Begun = d.Begun || begun
	}
	if i := slices.IndexFunc(d.Chapters, func(l chapterLink) bool { return !l.Ran }); i >= 0 {
		d.Start = &d.Chapters[i]
	}
	measured, err := s.measured(c.Request.Context())
	if err != nil {
		s.opt.Log.Warn("stored runs cannot be read", "error", err)
		d.Unread = true
	}
	for _, fault := range situations() {
		row := situation{Fault: fault}
		for _, col := range d.Columns {
			row.Cells = append(row.Cells, s.cellOf(col, fault, measured))
		}
		d.Rows = append(d.Rows, row)
	}
	s.show(c, http.StatusOK, "contents", page.View{Nav: "/", Data: d, Wide: true})
}

// measured lists the cells of the guarantees that a run has measured here.
func (s *server) measured(ctx context.Context) ([]lab.Guarantee, error) {
	if s.opt.Lab == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	names := []string{}
	for _, b := range s.live.Buses() {
		names = append(names, b.Name)
	}
	cells, err := lab.Guarantees(ctx, s.opt.Lab.Results, s.live.Chapters(), names)
	return slices.DeleteFunc(cells, func(g lab.Guarantee) bool { return g.Measured == nil }), err
}

// cellOf prefers what was measured on the default bus; a measurement on another one
// is better than none, and says where it was made.
func (s *server) cellOf(col column, fault string, measured []lab.Guarantee) cell {
	bus := s.live.DefaultBus()
	d := cell{Link: "/play?" + query("ch", itoa(col.Chapter.Number), "variant", col.Variant, "bus", bus, "fault", fault)}
	for _, g := range measured {
		same := g.Chapter == col.Chapter.Number && g.Variant == col.Variant && g.Fault == fault
		if same && (d.Report == nil || g.Bus == bus) {
			d.Report = g.Measured
		}
	}
	if d.Report != nil {
		d.Outcomes = verdictOf(*d.Report)
		return d
	}
	f, _ := lab.FaultNamed(fault)
	d.NA = f.NotApplicable(col.Chapter, bus) != ""
	return d
}

// verdictOf is a report in a word or two: what went wrong, or that nothing did.
func verdictOf(r lab.Report) []outcomeCount {
	switch {
	case r.Valid == audit.Unknown:
		return []outcomeCount{{"unknown", 0}}
	case r.Valid == audit.False:
		return slices.DeleteFunc(outcomesOf(r), func(o outcomeCount) bool { return o.Word == "delivered" || o.Word == "refused" })
	case r.Measured.Refused > 1:
		return []outcomeCount{{"refused", r.Measured.Refused}}
	case r.Late > 0:
		return []outcomeCount{{"late", 0}}
	}
	return []outcomeCount{{"ok", 0}}
}
