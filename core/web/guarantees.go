package web

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// guaranteesAnswer is the table: declared beside measured.
type guaranteesAnswer struct {
	Rows []guaranteeRow `json:"rows"`
	AsOf time.Time      `json:"as_of"`
	Next []next         `json:"next"`
}

// guaranteeRow is one cell, with where its measurement comes from.
type guaranteeRow struct {
	lab.Guarantee
	Run     string `json:"run,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Version string `json:"version,omitempty"`
}

// guarantees answers with every cell, or those that the parameters name. A cell
// that nobody has measured here says so.
func (s *server) guarantees(c *gin.Context) {
	cells, p := s.cellsAskedFor(c)
	if p != nil {
		fail(c, p)
		return
	}
	if wantsPage(c) {
		s.showGuarantees(c, cells)
		return
	}
	a := &guaranteesAnswer{Rows: []guaranteeRow{}, AsOf: s.opt.Now().UTC(), Next: []next{{"measure a cell",
		curl(c, http.MethodPost, "/runs", "chapter", "1", "bus", s.live.DefaultBus(), "fault", "broker-down")}}}
	for _, g := range cells {
		row := guaranteeRow{Guarantee: g}
		if g.Measured != nil {
			row.Run, row.Mode, row.Version = g.Measured.ID, g.Measured.Mode, g.Measured.Version
		}
		a.Rows = append(a.Rows, row)
	}
	reply(c, http.StatusOK, a)
}

// cellsAskedFor are the cells that the parameters name, all where they name none.
func (s *server) cellsAskedFor(c *gin.Context) ([]lab.Guarantee, *problem) {
	keep, p := s.cellFilter(c)
	if p != nil {
		return nil, p
	}
	cells, err := s.allCells(c)
	if err != nil {
		return nil, s.failed(c, err)
	}
	return slices.DeleteFunc(cells, func(g lab.Guarantee) bool { return !keep(g) }), nil
}

// cellFilter reads which cells are wanted; an unknown name is an error, not an
// empty table.
func (s *server) cellFilter(c *gin.Context) (func(lab.Guarantee) bool, *problem) {
	in, chapter := inputOf(c), 0
	if _, given := in.str("chapter"); given {
		ch, p := s.chapterOf(c, in)
		if p != nil {
			return nil, p
		}
		chapter = ch.Number
		if _, p := variantOf(ch, in); p != nil {
			return nil, p
		}
	}
	busName, busGiven := in.str("bus")
	if _, p := s.busOf(in); p != nil && busGiven {
		return nil, p
	}
	fault, faultGiven := in.str("fault")
	if _, known := lab.FaultNamed(fault); faultGiven && !known {
		return nil, invalid(fieldError{"fault", "unknown; GET /faults lists them"})
	}
	variant, _ := in.str("variant")
	if !s.anyVariant(variant) {
		return nil, newProblem(http.StatusBadRequest, "unknown_variant",
			fmt.Sprintf("no chapter has a variant %q", shorten(variant)), "GET /chapters lists them")
	}
	return func(g lab.Guarantee) bool {
		return (chapter == 0 || g.Chapter == chapter) && (busName == "" || g.Bus == busName) &&
			(fault == "" || g.Fault == fault) && (variant == "" || g.Variant == variant)
	}, nil
}

// anyVariant tells whether some chapter has a variant of that name; "" is any.
func (s *server) anyVariant(name string) bool {
	return slices.ContainsFunc(s.live.Chapters(), func(ch lab.Chapter) bool {
		_, ok := ch.Variant(name)
		return ok
	})
}

// WriteText writes a line a cell.
func (a *guaranteesAnswer) WriteText(out io.Writer) error {
	w := newTable(out)
	fmt.Fprintf(w, "chapter\tbus\tfault\tdeclared\tmeasured\trun\n")
	for _, r := range a.Rows {
		fmt.Fprintf(w, "%d %s\t%s\t%s\t%s\t%s\t%s\n", r.Chapter, r.Variant, r.Bus, r.Fault, r.Declared, r.words(), r.Run)
	}
	writeNext(w, a.Next)
	return w.Flush()
}

func (r guaranteeRow) words() string {
	switch {
	case r.NotApplicable != "":
		return "n/a: " + r.NotApplicable
	case r.Measured == nil:
		return "? not measured here"
	case r.Differs != "":
		return "✗ " + r.Differs
	}
	return "✓ the same"
}

// faultsAnswer lists the outages that are on now, and the faults that runs can have.
type faultsAnswer struct {
	Active []outageAnswer `json:"active"`
	Known  []lab.Fault    `json:"known"`
	AsOf   time.Time      `json:"as_of"`
	Next   []next         `json:"next"`
}

func (s *server) faults(c *gin.Context) {
	a := &faultsAnswer{Active: []outageAnswer{}, Known: lab.Faults(), AsOf: s.opt.Now().UTC(), Next: []next{}}
	for _, o := range s.live.Outages() {
		a.Active = append(a.Active, answerOutage(o))
		a.Next = append(a.Next, next{"end the outage of " + o.Name, curl(c, http.MethodDelete, "/demo/chaos/broker/"+o.Name)})
	}
	reply(c, http.StatusOK, a)
}

// WriteText writes both lists.
func (a *faultsAnswer) WriteText(out io.Writer) error {
	w := newTable(out)
	fmt.Fprintf(w, "on now\thits\tuntil\n")
	for _, o := range a.Active {
		fmt.Fprintf(w, "%s\t%d\t%s\n", o.Bus, o.Hits, o.Expires.Format(time.TimeOnly))
	}
	if len(a.Active) == 0 {
		fmt.Fprintf(w, "nothing\t\t\n")
	}
	fmt.Fprintf(w, "\nfaults of a run\n")
	for _, f := range a.Known {
		fmt.Fprintf(w, "%s\t%s\n", f.Name, f.What.En)
	}
	writeNext(w, a.Next)
	return w.Flush()
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

func itoa(n int) string { return strconv.Itoa(n) }
