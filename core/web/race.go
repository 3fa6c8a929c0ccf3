package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// A race's outcome is the lab's.
type (
	RaceResult = lab.RaceResult
	RaceSide   = lab.RaceSide
)

// raceAnswer is the outcome of a race.
type raceAnswer struct {
	lab.RaceResult
	Next []next `json:"next"`
}

// The number of orders on each side of a race.
const (
	defaultRace = 47
	maxRace     = 1000
)

func (s *server) race(c *gin.Context) {
	count, b, p := s.readRace(inputOf(c))
	if p == nil && s.opt.Race == nil {
		p = newProblem(http.StatusServiceUnavailable, "race_unavailable", "this process runs no races", "ask a serve")
	}
	if p != nil {
		fail(c, p)
		return
	}
	select {
	case s.racing <- struct{}{}:
		defer func() { <-s.racing }()
	default:
		p := newProblem(http.StatusTooManyRequests, "race_running", "a race is running; its outage would disturb yours",
			"try again when it is over")
		p.retryAfter = "10"
		fail(c, p)
		return
	}
	result, err := s.opt.Race(c.Request.Context(), count, b.Name)
	if err != nil {
		fail(c, s.noRace(c, b, err))
		return
	}
	result.Count, result.Bus = count, b.Name
	reply(c, http.StatusOK, &raceAnswer{result, []next{{"the table of contents", curl(c, http.MethodGet, "/chapters")}}})
}

func (s *server) readRace(in input) (int, lab.BusInfo, *problem) {
	b, p := s.busOf(in)
	if p != nil {
		return 0, b, p
	}
	count, given := in["count"].(int64)
	switch {
	case !given:
		count = defaultRace
	case count < 1 || count > maxRace:
		return 0, b, invalid(fieldError{"count", fmt.Sprintf("must be 1 to %d", maxRace)})
	}
	switch b.State {
	case lab.Off:
		return 0, b, busOff(b)
	case lab.Starting:
		return 0, b, busStarting(b)
	}
	return int(count), b, nil
}

func (s *server) noRace(c *gin.Context, b lab.BusInfo, err error) *problem {
	switch {
	case errors.Is(err, lab.ErrNotApplicable), errors.Is(err, lab.ErrSpec):
		return newProblem(http.StatusUnprocessableEntity, "no_race", err.Error(), "name another bus")
	case errors.Is(err, lab.ErrBusOff):
		return busOff(b)
	case errors.Is(err, lab.ErrBusStarting):
		return busStarting(b)
	}
	return s.failed(c, err)
}

// WriteText writes the result as an aligned table.
func (r *raceAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d orders on %s\torders\t✓ delivered\t✗ lost\t⧉ duplicated\t✗ stuck\t… pending\n", r.Count, r.Bus)
	for _, side := range []struct {
		name string
		lab.RaceSide
	}{{"naive", r.Naive}, {"outbox", r.Outbox}} {
		fmt.Fprintf(w, "%s (chapter %d)\t%d\t%d\t%d\t%d\t%d\t%d\n", side.name, side.Chapter,
			side.Orders, side.Delivered, side.Lost, side.Duplicated, side.Stuck, side.Pending)
	}
	fmt.Fprintf(w, "\nconclusive\t%t\n%s\n", r.Conclusive, r.Note)
	return w.Flush()
}
