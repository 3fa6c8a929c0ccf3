package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// stored is a run that has been kept.
func (s *server) stored(c *gin.Context, id string) (lab.Result, *problem) {
	res, err := lab.Load(c.Request.Context(), s.opt.Lab.Results, id)
	switch {
	case errors.Is(err, lab.ErrNoRun):
		return res, newProblem(http.StatusNotFound, "run_unknown", fmt.Sprintf("there is no run %q", shorten(id)), "GET /runs lists them")
	case err != nil:
		return res, s.failed(c, err)
	}
	return res, nil
}

// finished is stored for who needs the result: one that is not there yet, because the
// run still waits or works, and one that will never be, because it has failed, are other
// problems than an unknown run.
func (s *server) finished(c *gin.Context, id string) (lab.Result, *problem) {
	t, ok := s.opt.Lab.Queue.Get(id)
	switch {
	case !ok || t.State == lab.Done:
		return s.stored(c, id)
	case t.State == lab.Failed:
		p := newProblem(http.StatusConflict, "run_failed", fmt.Sprintf("the run %s has failed, and nothing was measured: %s", t.ID, t.Error),
			"ask for it again when the cause is gone; GET /runs/"+t.ID+" says what was asked for")
		p.Run = t.ID
		return lab.Result{}, p
	}
	p := newProblem(http.StatusConflict, "run_not_finished", fmt.Sprintf("the run %s is %s", t.ID, t.State), "watch /runs/"+t.ID+"/events")
	p.retryAfter, p.Run = "2", t.ID
	return lab.Result{}, p
}
