package web

import (
	"errors"
	"fmt"
	"net/http"

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
	reply(c, http.StatusOK, &raceAnswer{result, []next{
		{"the naive side, event by event", curl(c, http.MethodGet, "/audit/run/"+result.Naive.Run+".txt")},
		{"the outbox side", curl(c, http.MethodGet, "/audit/run/"+result.Outbox.Run+".txt")}}})
}

func (s *server) readRace(in input) (int, lab.BusInfo, *problem) {
	b, p := s.busOf(in)
	if p != nil {
		return 0, b, p
	}
	count, given := in["count"].(int64)
	switch {
	case !given:
		count = lab.DefaultOrders
	case count < 1 || count > lab.MaxRace:
		return 0, b, invalid(fieldError{"count", fmt.Sprintf("must be 1 to %d", lab.MaxRace)})
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
