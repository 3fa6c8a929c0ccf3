package web

import (
	"fmt"
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

func (s *server) allCells(c *gin.Context) ([]lab.Guarantee, error) {
	names := []string{}
	for _, b := range s.live.Buses() {
		names = append(names, b.Name)
	}
	return lab.Guarantees(c.Request.Context(), s.opt.Lab.Results, s.live.Chapters(), names)
}
