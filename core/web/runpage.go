package web

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
	"outboxplayground/core/web/picture"
)

// runPage is a run with all that was kept of it.
type runPage struct {
	*runView
	Report     *lab.Report // nil while it is under way
	Bars       template.HTML
	Timeline   *picture.Timeline
	Shown      *runEvent // the event of the timeline
	IsSmallest bool      // it is the smallest counterexample
	Events     []runEvent
	Trails     int // how many events there are
	Page       int // of the events, from 1
	Pages      []int
	Again      []next // commands
	Form       map[string]string
	Play       string
	Export     string
	Seconds    float64 // that it took
	JSON       string  // of the report, for the export
}

// runEvent is a line of the list of events.
type runEvent struct {
	Order         int
	EventID, Fate string
	Answer        string
}

// eventsPerPage keeps the page of a run of 2,000 orders small.
const eventsPerPage = 100

// showRun answers with the page of a run in whatever state it is.
func (s *server) showRun(c *gin.Context) {
	d, p := s.runData(c, c.Param("run"))
	if p != nil {
		fail(c, p)
		return
	}
	view := page.View{Title: s.say(c, "run.title", d.ID), Nav: "/runs", Data: d, Wide: true, Scripts: []string{"run.js", "timeline.js"}}
	if !d.Over() {
		view.Refresh = refreshSeconds
	}
	s.show(c, http.StatusOK, "result", view)
}

func (s *server) runData(c *gin.Context, id string) (*runPage, *problem) {
	if t, ok := s.opt.Lab.Queue.Get(id); ok && t.State != lab.Done {
		return &runPage{runView: s.viewTicket(t)}, nil
	}
	res, p := s.stored(c, id)
	if p != nil {
		return nil, p
	}
	d := &runPage{runView: s.viewResult(c, res), Report: &res.Report, Page: 1, Export: "/runs/" + id + "/export"}
	d.tell(s, c, res)
	if n, given := inputOf(c)["events"].(int64); given && n > 0 {
		d.Page = int(min(n, int64(len(res.Trails)/eventsPerPage+1)))
	}
	d.list(res.Trails)
	return d, nil
}

// tell adds the pictures and the ways on.
func (d *runPage) tell(s *server, c *gin.Context, res lab.Result) {
	r := res.Report
	d.Trails, d.Seconds = len(res.Trails), r.Took/1000
	bars := []picture.Bar{{Name: s.plain(c)("picture.bars.measured"), Counts: picture.CountFates(fates(res.Trails))}}
	if p := d.Predicted; p != nil && p.Delivered() {
		bars = append([]picture.Bar{{Name: s.plain(c)("picture.bars.predicted"), Guess: true, Counts: []picture.Count{{Fate: "delivered", N: p.N}}}}, bars...)
	}
	d.Bars = picture.Bars(s.plain(c), "bars", len(res.Trails), bars...)
	if e, ok := shownEvent(res); ok {
		t := s.timeline(c, r, e)
		d.Timeline, d.IsSmallest = &t, r.Smallest != nil
		d.Shown = &runEvent{e.Order, e.Trail.EventID, picture.Fate(e), e.Answer}
	}
	d.Form = formOf(r, len(res.Trails))
	query := url.Values{}
	for from, to := range map[string]string{"chapter": "ch", "variant": "variant", "bus": "bus", "fault": "fault", "orders": "n", "seed": "seed", "outage": "outage"} {
		if v := d.Form[from]; v != "" {
			query.Set(to, v)
		}
	}
	d.Play = "/play?" + query.Encode()
	d.Again = againAndNext(c, s.live.Chapters(), d.Form)
}

// formOf are the parameters that ask for the same run again.
func formOf(r lab.Report, orders int) map[string]string {
	form := map[string]string{"chapter": strconv.Itoa(r.Chapter), "variant": r.Variant, "bus": r.Bus, "orders": strconv.Itoa(orders)}
	if len(r.Faults) > 0 {
		form["fault"] = r.Faults[0].Name
	}
	if r.Seed != 0 {
		form["seed"] = strconv.FormatUint(r.Seed, 10)
	}
	if r.Outage != "" {
		form["outage"] = r.Outage
	}
	return form
}

// againAndNext are commands: the same run, and the same fault one chapter further.
func againAndNext(c *gin.Context, chapters []lab.Chapter, form map[string]string) []next {
	ask := func(chapter int, variant string) string {
		pairs := []string{"chapter", strconv.Itoa(chapter)}
		if variant != "" {
			pairs = append(pairs, "variant", variant)
		}
		for _, name := range []string{"bus", "fault", "orders", "seed", "outage"} {
			if v := form[name]; v != "" {
				pairs = append(pairs, name, v)
			}
		}
		return curl(c, http.MethodPost, "/runs", pairs...)
	}
	number, _ := strconv.Atoi(form["chapter"])
	list := []next{{"again", ask(number, form["variant"])}}
	f, _ := lab.FaultNamed(form["fault"])
	for _, ch := range chapters {
		if ch.Number > number && f.NotApplicable(ch, form["bus"]) == "" {
			return append(list, next{"further", ask(ch.Number, "")})
		}
	}
	return list
}

// shownEvent is the one whose timeline is worth seeing: the smallest counterexample,
// else the event that the fault was about.
func shownEvent(res lab.Result) (lab.EventTrail, bool) {
	r, n := res.Report, 0
	switch {
	case r.Smallest != nil:
		n = r.Smallest.Order
	case len(r.Faults) > 0 && r.Faults[0].FromOrder > 0:
		n = r.Faults[0].FromOrder
	}
	if n == 0 || n > len(res.Trails) { // nothing struck: any event will do
		n = len(res.Trails)
	}
	if n < 1 || n > len(res.Trails) {
		return lab.EventTrail{}, false
	}
	return res.Trails[n-1], true
}

func fates(trails []lab.EventTrail) []string {
	list := make([]string, len(trails))
	for i, e := range trails {
		list[i] = picture.Fate(e)
	}
	return list
}

// list fills in the events of the page.
func (d *runPage) list(trails []lab.EventTrail) {
	for i := range (len(trails) + eventsPerPage - 1) / eventsPerPage {
		d.Pages = append(d.Pages, i+1)
	}
	from := min((d.Page-1)*eventsPerPage, len(trails))
	for _, e := range trails[from:min(from+eventsPerPage, len(trails))] {
		d.Events = append(d.Events, runEvent{e.Order, e.Trail.EventID, picture.Fate(e), e.Answer})
	}
}
