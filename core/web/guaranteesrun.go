package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

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
	cells, p := s.cellsAskedFor(c)
	if p != nil {
		fail(c, p)
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
		case named && cellKey(g) != one, g.NotApplicable != "", states[cellKey(g)] != "":
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
