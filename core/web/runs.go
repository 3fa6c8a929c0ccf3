package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

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

func runParams() []param {
	return []param{chapterParam(), text("variant"), text("bus"), text("fault"), number("orders"), seedParam(),
		text("outage"), {"predict", single(parseNumber), prediction}}
}

// prediction reads {"delivered": 20}, the one thing that can be predicted so far.
func prediction(raw []byte) (any, error) {
	var p map[string]*int64
	if json.Unmarshal(raw, &p) != nil || len(p) != 1 || p["delivered"] == nil || *p["delivered"] < 0 {
		return nil, errors.New(`must be an object like {"delivered": 20}`)
	}
	return *p["delivered"], nil
}

// askRun puts a run into the queue.
func (s *server) askRun(c *gin.Context) {
	spec, p := s.specOf(c)
	if p != nil {
		fail(c, p)
		return
	}
	t, err := s.opt.Lab.Queue.Submit(spec)
	if err != nil {
		fail(c, s.noRun(c, spec, err))
		return
	}
	if follows(c) {
		noteProgress(c, spec.Chapter, ran)
	}
	if wantsPage(c) {
		seeOther(c, "/runs/"+t.ID)
		return
	}
	c.Header("Location", "/runs/"+t.ID)
	reply(c, http.StatusAccepted, answerTicket(c, t))
}

func (s *server) specOf(c *gin.Context) (lab.Spec, *problem) {
	in := inputOf(c)
	ch, p := s.chapterOf(c, in)
	if p != nil {
		return lab.Spec{}, p
	}
	v, p := variantOf(ch, in)
	if p != nil {
		return lab.Spec{}, p
	}
	b, p := s.busOf(in)
	if p != nil {
		return lab.Spec{}, p
	}
	if off := s.live.ChapterOff(ch.Number); off != nil {
		return lab.Spec{}, chapterOff(ch, off)
	}
	spec := lab.Spec{Chapter: ch.Number, Variant: v.Name, Bus: b.Name}
	spec.Fault, _ = in.str("fault")
	if orders, given := in["orders"].(int64); given {
		if orders < 1 || orders > lab.MaxOrders {
			return spec, invalid(fieldError{"orders", fmt.Sprintf("must be 1 to %d", lab.MaxOrders)})
		}
		spec.Orders = int(orders)
	}
	if seed, given := in["seed"].(uint64); given {
		spec.Seed = seed
	}
	if n, given := in["predict"].(int64); given {
		predicted := int(n)
		spec.Predicted = &predicted
	}
	if outage, given := in.str("outage"); given {
		d, err := time.ParseDuration(outage)
		if err != nil || d < 0 || d > lab.MaxOutage {
			return spec, invalid(fieldError{"outage", fmt.Sprintf("must be a duration like 30s, at most %v", lab.MaxOutage)})
		}
		spec.Outage = d
	}
	return spec, nil
}

func (s *server) noRun(c *gin.Context, spec lab.Spec, err error) *problem {
	b, _ := s.live.Bus(spec.Bus)
	switch {
	case errors.Is(err, lab.ErrQueueFull):
		p := newProblem(http.StatusTooManyRequests, "queue_full",
			fmt.Sprintf("%d runs are waiting, and no more may", lab.QueueLength), "try again when some are over; GET /runs shows them")
		p.retryAfter = "15"
		return p
	case errors.Is(err, lab.ErrNotApplicable):
		return newProblem(http.StatusUnprocessableEntity, "not_applicable", err.Error(), "GET /audit/guarantees shows which cells apply")
	case errors.Is(err, lab.ErrSpec):
		return newProblem(http.StatusUnprocessableEntity, "invalid_input", err.Error(), "GET /faults lists the faults, GET /chapters the variants")
	case errors.Is(err, lab.ErrBusOff):
		return busOff(b)
	case errors.Is(err, lab.ErrBusStarting):
		return busStarting(b)
	}
	return s.failed(c, err)
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
