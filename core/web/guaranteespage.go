package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// guaranteesPage is the table for a browser: faults down; across, the chapters of one
// bus, or the buses of one chapter.
type guaranteesPage struct {
	Bus      string // "" where a chapter was asked for
	Chapter  lab.Chapter
	Buses    []lab.BusInfo
	Chapters []lab.Chapter
	Tables   []guaranteeTable
	// Of the cells shown:
	Measured, Missing, Waiting, Differing, NA int
	AsOf                                      time.Time
	Before                                    string   // AsOf for the button that measures all again
	Servers                                   []string // modes and versions on which was measured
	Curl, Ask                                 string
	Full                                      bool // the queue takes no more now
}

// guaranteeTable is a table with its heads.
type guaranteeTable struct {
	Name  string // a variant; "" in the view of a bus
	Note  lab.Text
	Heads []string
	Rows  []guaranteeLine
}

type guaranteeLine struct {
	Fault lab.Fault
	Cells []guaranteeCell
}

// guaranteeCell is one cell, as a reader sees it.
type guaranteeCell struct {
	lab.Guarantee
	Outcomes []outcomeCount
	State    string // queued or running, "" if nobody is measuring it
}

// Key names the cell for the button that runs it.
func (g guaranteeCell) Key() string { return cellKey(g.Guarantee) }

func cellKey(g lab.Guarantee) string {
	return fmt.Sprintf("%d.%s.%s.%s", g.Chapter, g.Variant, g.Bus, g.Fault)
}

// showGuarantees answers with the table as a page. cells are those of the filter.
func (s *server) showGuarantees(c *gin.Context, cells []lab.Guarantee) {
	in := inputOf(c)
	d := &guaranteesPage{Buses: s.live.Buses(), Chapters: s.live.Chapters(), AsOf: s.opt.Now().UTC(), Full: s.queueIsFull()}
	d.Before = d.AsOf.Format(time.RFC3339Nano)
	pairs := []string{}
	if number, given := in.str("chapter"); given {
		d.Chapter, _ = s.chapterNamed(number, http.StatusBadRequest)
		pairs = append(pairs, "chapter", number)
	} else {
		if d.Bus, given = in.str("bus"); !given {
			d.Bus = s.live.DefaultBus()
		}
		cells = slices.DeleteFunc(cells, func(g lab.Guarantee) bool { return g.Bus != d.Bus })
		pairs = append(pairs, "bus", d.Bus)
	}
	d.Curl, d.Ask = curl(c, http.MethodGet, "/audit/guarantees", pairs...), curl(c, http.MethodPost, "/audit/guarantees", pairs...)
	d.fill(cells, s.beingMeasured())
	v := page.View{Title: s.say(c, "guarantees.title"), Nav: "/audit/guarantees", Data: d, Wide: true, Scripts: []string{"guarantees.js"}}
	if d.Waiting > 0 {
		v.Refresh = 5
	}
	s.show(c, http.StatusOK, "guarantees", v)
}

// beingMeasured are the cells whose run waits or goes on, with its state.
func (s *server) beingMeasured() map[string]string {
	states := map[string]string{}
	for _, t := range s.opt.Lab.Queue.List() {
		if t.State == lab.Queued || t.State == lab.Running {
			states[cellKey(lab.Guarantee{Chapter: t.Spec.Chapter, Variant: t.Spec.Variant, Bus: t.Spec.Bus, Fault: t.Spec.Fault})] = t.State
		}
	}
	return states
}

func (s *server) queueIsFull() bool {
	waiting := 0
	for _, t := range s.opt.Lab.Queue.List() {
		if t.State == lab.Queued {
			waiting++
		}
	}
	return waiting >= lab.QueueLength
}

// fill sorts the cells into tables.
func (d *guaranteesPage) fill(cells []lab.Guarantee, states map[string]string) {
	for _, g := range cells {
		cell := guaranteeCell{Guarantee: g, State: states[cellKey(g)]}
		if g.Measured != nil {
			cell.Outcomes = verdictOf(*g.Measured)
		}
		d.count(cell)
		name, head := "", fmt.Sprintf("%d %s", g.Chapter, g.Variant)
		if d.Bus == "" {
			name, head = g.Variant, g.Bus
		}
		t := d.table(name)
		if !slices.Contains(t.Heads, head) {
			t.Heads = append(t.Heads, head)
		}
		line := t.line(g.Fault)
		line.Cells = append(line.Cells, cell)
	}
	for i, t := range d.Tables {
		v, ok := d.Chapter.Variant(t.Name)
		if ok && t.Name != "" {
			d.Tables[i].Note = v.Note
		}
	}
}

func (d *guaranteesPage) count(g guaranteeCell) {
	switch {
	case g.NotApplicable != "":
		d.NA++
		return
	case g.Measured == nil:
		d.Missing++
	default:
		d.Measured++
		if server := strings.TrimSpace(g.Bus + ": " + g.Measured.Mode + " " + g.Measured.Version); !slices.Contains(d.Servers, server) {
			d.Servers = append(d.Servers, server)
		}
		if g.Differs != "" {
			d.Differing++
		}
	}
	if g.State != "" {
		d.Waiting++
	}
}

func (d *guaranteesPage) table(name string) *guaranteeTable {
	i := slices.IndexFunc(d.Tables, func(t guaranteeTable) bool { return t.Name == name })
	if i < 0 {
		i, d.Tables = len(d.Tables), append(d.Tables, guaranteeTable{Name: name})
	}
	return &d.Tables[i]
}

// line is the row of a fault. Every column lists the faults in the same order.
func (t *guaranteeTable) line(fault string) *guaranteeLine {
	i := slices.IndexFunc(t.Rows, func(r guaranteeLine) bool { return r.Fault.Name == fault })
	if i < 0 {
		f, _ := lab.FaultNamed(fault)
		i, t.Rows = len(t.Rows), append(t.Rows, guaranteeLine{Fault: f})
	}
	return &t.Rows[i]
}

// askedAnswer says what a call for many runs has put into the queue.
type askedAnswer struct {
	Runs []string `json:"runs"`
	// Left counts the cells for which the queue had no room: ask again when some are over.
	Left int    `json:"left"`
	Next []next `json:"next"`
}

// WriteText writes the ids.
func (a *askedAnswer) WriteText(out io.Writer) error {
	w := newTable(out)
	fmt.Fprintf(w, "asked for\t%d\nleft\t%d\n", len(a.Runs), a.Left)
	writeNext(w, a.Next)
	return w.Flush()
}

// measureGuarantees asks for the runs of one cell, or of all cells of the filter that
// nobody has measured here, or not since before, as many as the queue takes.
func (s *server) measureGuarantees(c *gin.Context) {
	keep, p := s.cellFilter(c)
	if p != nil {
		fail(c, p)
		return
	}
	cells, err := s.allCells(c)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	one, named := inputOf(c).str("cell")
	before, p := timeOf(inputOf(c), "before")
	if p != nil {
		fail(c, p)
		return
	}
	states := s.beingMeasured()
	var wanted []lab.Spec
	for _, g := range cells {
		switch {
		case named && cellKey(g) != one, !keep(g), g.NotApplicable != "", states[cellKey(g)] != "":
		case named, g.Measured == nil, g.AsOf.Before(before):
			wanted = append(wanted, lab.Spec{Chapter: g.Chapter, Variant: g.Variant, Bus: g.Bus, Fault: g.Fault})
		}
	}
	if named && len(wanted) == 0 && states[one] == "" {
		fail(c, invalid(fieldError{"cell", "is no cell like 3.outbox.nats.broker-down that exists; GET /audit/guarantees lists them"}))
		return
	}
	s.askMany(c, wanted, "/audit/guarantees")
}

// timeOf reads a moment; the zero one where none is given.
func timeOf(in input, name string) (time.Time, *problem) {
	said, given := in.str(name)
	if !given {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, said)
	if err != nil {
		return at, invalid(fieldError{name, "must be a time like 2026-01-02T15:04:05Z"})
	}
	return at, nil
}

// askMany puts runs into the queue until it is full or all are in it. A bus that is
// off or starting is left out; it can be asked for when it is there.
func (s *server) askMany(c *gin.Context, wanted []lab.Spec, page string) {
	a := &askedAnswer{Runs: []string{}, Next: []next{{"what waits and runs", curl(c, http.MethodGet, "/runs")}}}
	for i, spec := range wanted {
		t, err := s.opt.Lab.Queue.Submit(spec)
		switch {
		case errors.Is(err, lab.ErrQueueFull):
			a.Left = len(wanted) - i
		case errors.Is(err, lab.ErrBusOff), errors.Is(err, lab.ErrBusStarting):
			if len(wanted) == 1 {
				fail(c, s.noRun(c, spec, err))
				return
			}
			continue
		case err != nil:
			fail(c, s.noRun(c, spec, err))
			return
		default:
			a.Runs = append(a.Runs, t.ID)
			continue
		}
		break
	}
	if a.Left > 0 && len(a.Runs) == 0 {
		fail(c, s.noRun(c, wanted[0], lab.ErrQueueFull))
		return
	}
	if wantsPage(c) {
		back(c, page)
		return
	}
	reply(c, http.StatusAccepted, a)
}

func (s *server) allCells(c *gin.Context) ([]lab.Guarantee, error) {
	names := []string{}
	for _, b := range s.live.Buses() {
		names = append(names, b.Name)
	}
	return lab.Guarantees(c.Request.Context(), s.opt.Lab.Results, s.live.Chapters(), names)
}
