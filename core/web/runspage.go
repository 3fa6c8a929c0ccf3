package web

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// runLine is a run in a list.
type runLine struct {
	ID, State, Variant, Bus, Fault string
	Chapter                        int
	Report                         *lab.Report
}

// runLines lists what waits and runs, and the newest results.
func (s *server) runLines(ctx context.Context) (list []runLine, err error) {
	listed := map[string]bool{}
	for _, t := range s.opt.Lab.Queue.List() {
		listed[t.ID] = true
		list = append(list, runLine{ID: t.ID, State: t.State, Chapter: t.Spec.Chapter, Variant: t.Spec.Variant, Bus: t.Spec.Bus, Fault: t.Spec.Fault, Report: t.Report})
	}
	recent, err := lab.Recent(ctx, s.opt.Lab.Results, recentRuns)
	for _, r := range recent {
		if !listed[r.ID] {
			list = append(list, runLine{r.ID, lab.Done, r.Variant, r.Bus, r.Faults[0].Name, r.Chapter, &r})
		}
	}
	return list[:min(len(list), 4*recentRuns)], err
}

// Words are the outcomes of the run, for the list.
func (l runLine) Words() []outcomeCount {
	if l.Report == nil {
		return nil
	}
	return outcomesOf(*l.Report)
}

// showRuns answers with the list as a page.
func (s *server) showRuns(c *gin.Context) {
	lines, err := s.runLines(c.Request.Context())
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	v := page.View{Title: s.say(c, "runs.title"), Nav: "/runs", Data: lines, Wide: true}
	for _, l := range lines {
		if l.State == lab.Queued || l.State == lab.Running {
			v.Refresh = refreshSeconds
		}
	}
	s.show(c, http.StatusOK, "runs", v)
}
