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
// run still waits or works or has failed, is another problem than an unknown run.
func (s *server) finished(c *gin.Context, id string) (lab.Result, *problem) {
	if t, ok := s.opt.Lab.Queue.Get(id); ok && t.State != lab.Done {
		p := newProblem(http.StatusConflict, "run_not_finished", "the run is "+t.State+"; "+t.Error, "watch /runs/"+id+"/events")
		p.retryAfter = "2"
		return lab.Result{}, p
	}
	return s.stored(c, id)
}
