package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/fault"
	"outboxplayground/core/lab"
)

// outageAnswer is the outage of one bus.
type outageAnswer struct {
	Bus     string    `json:"bus"`
	Since   time.Time `json:"since,omitzero"` // zero: there was none
	Expires time.Time `json:"expires,omitzero"`
	Hits    int64     `json:"hits"` // connections cut and dials refused
}

func answerOutage(o fault.Status) outageAnswer {
	return outageAnswer{Bus: o.Name, Since: o.Since.UTC(), Expires: o.Expires.UTC(), Hits: o.Hits}
}

// chaosAnswer says what was done to a bus.
type chaosAnswer struct {
	outageAnswer
	Broken bool   `json:"broken"`
	Note   string `json:"note"`
	Next   []next `json:"next"`
}

// chaosNote says how far the outage reaches.
const chaosNote = "the interactive chapters of this process cannot reach the broker; the broker itself, other processes and runs of the lab do not notice"

// breakBroker cuts a broker off from the interactive chapters for a while.
func (s *server) breakBroker(c *gin.Context) {
	b, p := s.busNamed(c.Param("bus"))
	if p != nil {
		fail(c, p)
		return
	}
	wanted, given := inputOf(c)["seconds"].(int64)
	if !given {
		wanted = int64(lab.DefaultChaos / time.Second)
	}
	if wanted < 1 || wanted > int64(lab.MaxChaos/time.Second) {
		fail(c, invalid(fieldError{"seconds", "must be 1 to " + seconds(lab.MaxChaos)}))
		return
	}
	status, err := s.live.Break(b.Name, time.Duration(wanted)*time.Second)
	if err != nil {
		fail(c, s.noChaos(c, b, err))
		return
	}
	if wantsPage(c) {
		back(c, "/")
		return
	}
	reply(c, http.StatusOK, &chaosAnswer{answerOutage(status), true, chaosNote, []next{
		{"place an order meanwhile", curl(c, http.MethodPost, "/demo/place-order", "user_id", "u1", "items", "A,B", "bus", b.Name, "chapter", "1")},
		{"end it", curl(c, http.MethodDelete, "/demo/chaos/broker/"+b.Name)}}})
}

func (s *server) noChaos(c *gin.Context, b lab.BusInfo, err error) *problem {
	switch {
	case errors.Is(err, lab.ErrNoConnection):
		return newProblem(http.StatusUnprocessableEntity, "no_connection", err.Error(), "name a bus with a network; kill the process to lose this one")
	case errors.Is(err, lab.ErrBusOff):
		return busOff(b)
	}
	return s.failed(c, err)
}

// healBroker ends the outage. Healing a healthy broker is no error.
func (s *server) healBroker(c *gin.Context) {
	b, p := s.busNamed(c.Param("bus"))
	if p != nil {
		fail(c, p)
		return
	}
	status, was, err := s.live.Heal(b.Name)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	a := &chaosAnswer{outageAnswer: answerOutage(status), Note: "the outage is over; clients reconnect by themselves", Next: []next{
		{"what became of the orders", curl(c, http.MethodGet, "/metrics")}}}
	a.Bus = b.Name
	if !was {
		a.Note = "there was no outage"
	}
	reply(c, http.StatusOK, a)
}

// busNamed is busOf for a name in the path, where an unknown one is not found.
func (s *server) busNamed(name string) (lab.BusInfo, *problem) {
	b, p := s.busOf(input{"bus": name})
	if p != nil {
		p.Status, p.Title = http.StatusNotFound, http.StatusText(http.StatusNotFound)
	}
	return b, p
}

// WriteText writes the answer as text.
func (a *chaosAnswer) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "bus     %s\nbroken  %t\nhits    %d\nnote    %s\n", a.Bus, a.Broken, a.Hits, a.Note)
	return err
}
