package web

import (
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// Lab is what the calls about runs need.
type Lab struct {
	Queue *lab.Queue
	// Results is a pool in the playground's schema, where finished runs are kept.
	Results lab.Reader
}

// withLab guards a call that needs the lab.
func (s *server) withLab(h gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		if s.opt.Lab == nil {
			fail(c, newProblem(http.StatusServiceUnavailable, "lab_off", "this process has no lab", "ask a serve"))
			return
		}
		h(c)
	}
}

// runAnswer is a run in whatever state it is.
type runAnswer struct {
	ID     string            `json:"id"`
	State  string            `json:"state"`
	Error  string            `json:"error,omitempty"`
	Spec   *lab.Spec         `json:"spec,omitempty"`
	Report *lab.Report       `json:"report,omitempty"`
	Next   []next            `json:"next"`
	Links  map[string]string `json:"links"`
}

func answerTicket(c *gin.Context, t lab.Ticket) *runAnswer {
	a := answerRun(c, t.ID, t.State)
	a.Error, a.Spec, a.Report = t.Error, &t.Spec, t.Report
	return a
}

func answerRun(c *gin.Context, id, state string) *runAnswer {
	a := &runAnswer{ID: id, State: state, Next: []next{}, Links: map[string]string{
		"self": base(c) + "/runs/" + id, "events": base(c) + "/runs/" + id + "/events", "audit": base(c) + "/audit/run/" + id}}
	if state == lab.Done {
		a.Next = append(a.Next, next{"every event's trail", curl(c, http.MethodGet, "/audit/run/"+id)})
	} else {
		a.Next = append(a.Next, next{"watch it", curl(c, http.MethodGet, "/runs/"+id+"/events")},
			next{"look again", curl(c, http.MethodGet, "/runs/"+id)})
	}
	return a
}

// oneRun finds a run in the queue, else among the finished ones.
func (s *server) oneRun(c *gin.Context) {
	if wantsPage(c) {
		s.showRun(c)
		return
	}
	id := c.Param("run")
	if t, ok := s.opt.Lab.Queue.Get(id); ok {
		reply(c, http.StatusOK, answerTicket(c, t))
		return
	}
	res, p := s.stored(c, id)
	if p != nil {
		fail(c, p)
		return
	}
	a := answerRun(c, id, lab.Done)
	a.Report = &res.Report
	reply(c, http.StatusOK, a)
}

// WriteText writes the run as text.
func (a *runAnswer) WriteText(out io.Writer) error {
	fmt.Fprintf(out, "run    %s\nstate  %s\n", a.ID, a.State)
	if a.Error != "" {
		fmt.Fprintf(out, "error  %q\n", a.Error)
	}
	if a.Report != nil {
		return lab.Result{Report: *a.Report}.WriteText(out)
	}
	return nil
}

// auditRun answers with the report and the trail of every event.
func (s *server) auditRun(c *gin.Context) {
	res, p := s.finished(c, c.Param("run"))
	if p != nil {
		fail(c, p)
		return
	}
	reply(c, http.StatusOK, &auditRunAnswer{res.Report, res.Trails, res})
}

// auditRunAnswer is the report object with the trails beside it.
type auditRunAnswer struct {
	lab.Report
	Trails []lab.EventTrail `json:"trails"`
	res    lab.Result
}

// WriteText writes the verdict and the smallest counterexample.
func (a *auditRunAnswer) WriteText(out io.Writer) error { return a.res.WriteText(out) }
