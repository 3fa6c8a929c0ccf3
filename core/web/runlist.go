package web

import (
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// runsAnswer lists what waits and runs, and the newest results.
type runsAnswer struct {
	Runs []*runAnswer `json:"runs"`
	Next []next       `json:"next"`
}

// recentRuns is how many results the list shows.
const recentRuns = 50

func (s *server) allRuns(c *gin.Context) {
	if wantsPage(c) {
		s.showRuns(c)
		return
	}
	a := &runsAnswer{Runs: []*runAnswer{}, Next: []next{{"ask for one",
		curl(c, http.MethodPost, "/runs", "chapter", "1", "fault", "broker-down")}}}
	listed := map[string]bool{}
	for _, t := range s.opt.Lab.Queue.List() {
		a.Runs, listed[t.ID] = append(a.Runs, answerTicket(c, t)), true
	}
	recent, err := lab.Recent(c.Request.Context(), s.opt.Lab.Results, recentRuns)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	for _, r := range recent {
		if !listed[r.ID] {
			one := answerRun(c, r.ID, lab.Done)
			one.Report = &r
			a.Runs = append(a.Runs, one)
		}
	}
	reply(c, http.StatusOK, a)
}

// WriteText writes a line a run.
func (a *runsAnswer) WriteText(out io.Writer) error {
	w := newTable(out)
	fmt.Fprintf(w, "run\tstate\tchapter\tbus\tfault\tvalid\n")
	for _, r := range a.Runs {
		switch {
		case r.Report != nil:
			fmt.Fprintf(w, "%s\t%s\t%d %s\t%s\t%s\t%s\n", r.ID, r.State, r.Report.Chapter, r.Report.Variant,
				r.Report.Bus, r.Report.Faults[0].Name, r.Report.Valid)
		case r.Spec != nil:
			fmt.Fprintf(w, "%s\t%s\t%d %s\t%s\t%s\t\n", r.ID, r.State, r.Spec.Chapter, r.Spec.Variant, r.Spec.Bus, r.Spec.Fault)
		}
	}
	writeNext(w, a.Next)
	return w.Flush()
}
