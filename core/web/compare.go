package web

import (
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
	"outboxplayground/core/web/picture"
)

// compareAnswer is two runs side by side.
type compareAnswer struct {
	A    lab.Report  `json:"a"`
	B    lab.Report  `json:"b"`
	Rows []fieldPair `json:"rows"`
	Next []next      `json:"next"`
}

// fieldPair is one fact of both.
type fieldPair struct {
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
	Same  bool   `json:"same"`
	// Outcome: the field is one of the outcomes, which have a sign.
	Outcome bool `json:"-"`
}

// Own tells a fact that every run has to itself: that it differs says nothing.
func (f fieldPair) Own() bool { return f.Field == "took" || f.Field == "as_of" }

// comparePage is the same for a browser.
type comparePage struct {
	compareAnswer
	Chosen  bool // both runs are named
	WantA   string
	Lines   []runLine // to choose from
	Bars    template.HTML
	Sides   []compareSide
	Curl    string
	Differs int
	Orders  int
}

// compareSide is one of the two, with its timeline.
type compareSide struct {
	Name     string
	Report   lab.Report
	Timeline *picture.Timeline
	Shown    *runEvent
}

// compare sets two stored runs side by side.
func (s *server) compare(c *gin.Context) {
	idA, _ := inputOf(c).str("a")
	idB, _ := inputOf(c).str("b")
	if wantsPage(c) && (idA == "" || idB == "") {
		s.chooseTwo(c, idA+idB)
		return
	}
	a, p := s.loadFor(c, "a", idA)
	b, q := s.loadFor(c, "b", idB)
	if p == nil {
		p = q
	}
	if p != nil {
		fail(c, p)
		return
	}
	answer := compareAnswer{A: a.Report, B: b.Report, Rows: compareRows(a.Report, b.Report), Next: []next{
		{"the trails of a", curl(c, http.MethodGet, "/audit/run/"+idA)}, {"the trails of b", curl(c, http.MethodGet, "/audit/run/"+idB)}}}
	if wantsPage(c) {
		s.showCompared(c, answer, a, b)
		return
	}
	reply(c, http.StatusOK, &answer)
}

func (s *server) loadFor(c *gin.Context, name, id string) (lab.Result, *problem) {
	if id == "" {
		return lab.Result{}, invalid(fieldError{name, "names a stored run; GET /runs lists them"})
	}
	return s.finished(c, id)
}

// compareRows are the facts of both, those that explain the others first.
func compareRows(a, b lab.Report) (rows []fieldPair) {
	add := func(field, a, b string) { rows = append(rows, fieldPair{Field: field, A: a, B: b, Same: a == b}) }
	count := func(field string, a, b int) { add(field, strconv.Itoa(a), strconv.Itoa(b)) }
	add("chapter", fmt.Sprintf("%d %s", a.Chapter, a.Variant), fmt.Sprintf("%d %s", b.Chapter, b.Variant))
	add("bus", a.Bus, b.Bus)
	add("server", a.Mode+" "+a.Version, b.Mode+" "+b.Version)
	fa, fb := faultOf(a), faultOf(b)
	add("fault", fa.Name, fb.Name)
	count("hits", fa.Hits, fb.Hits)
	add("seed", strconv.FormatUint(a.Seed, 10), strconv.FormatUint(b.Seed, 10))
	add("valid", string(a.Valid), string(b.Valid))
	ma, mb := a.Measured, b.Measured
	for _, f := range []struct {
		name string
		a, b int
	}{{"orders", ma.Orders, mb.Orders}, {"delivered", ma.Delivered, mb.Delivered}, {"lost", ma.Lost, mb.Lost},
		{"duplicated", ma.Duplicated, mb.Duplicated}, {"phantom", ma.Phantom, mb.Phantom}, {"reordered", ma.Reordered, mb.Reordered},
		{"stuck", ma.Stuck, mb.Stuck}, {"refused", ma.Refused, mb.Refused}, {"pending", ma.Pending, mb.Pending}} {
		count(f.name, f.a, f.b)
		rows[len(rows)-1].Outcome = f.name != "orders"
	}
	count("late", a.Late, b.Late)
	add("declared", a.Declared, b.Declared)
	add("took", seconds3(a.Took), seconds3(b.Took))
	add("as_of", a.AsOf.Format(time.RFC3339), b.AsOf.Format(time.RFC3339))
	return rows
}

func seconds3(ms float64) string { return fmt.Sprintf("%.1f s", ms/1000) }

func faultOf(r lab.Report) lab.FaultReport {
	if len(r.Faults) == 0 {
		return lab.FaultReport{}
	}
	return r.Faults[0]
}

// WriteText writes a line a fact; those that differ have a mark.
func (a *compareAnswer) WriteText(out io.Writer) error {
	w := newTable(out)
	fmt.Fprintf(w, "\ta %s\tb %s\t\n", a.A.ID, a.B.ID)
	for _, r := range a.Rows {
		mark := "≠"
		if r.Same {
			mark = ""
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Field, r.A, r.B, mark)
	}
	writeNext(w, a.Next)
	return w.Flush()
}

func (s *server) showCompared(c *gin.Context, answer compareAnswer, a, b lab.Result) {
	d := &comparePage{compareAnswer: answer, Chosen: true,
		Curl: curl(c, http.MethodGet, "/compare", "a", answer.A.ID, "b", answer.B.ID)}
	var bars []picture.Bar
	for _, side := range []struct {
		name string
		res  lab.Result
	}{{"a", a}, {"b", b}} {
		bars = append(bars, picture.Bar{Name: side.name, Counts: picture.CountFates(fates(side.res.Trails))})
		d.Orders = max(d.Orders, len(side.res.Trails))
		one := compareSide{Name: side.name, Report: side.res.Report}
		if e, ok := shownEvent(side.res); ok {
			t := s.timeline(c, side.res.Report, e)
			t.ID = side.name + "-" + t.ID // the same run may stand on both sides
			one.Timeline, one.Shown = &t, &runEvent{e.Order, e.Trail.EventID, picture.Fate(e), e.Answer}
		}
		d.Sides = append(d.Sides, one)
	}
	d.Bars = picture.Bars(s.plain(c), "bars", d.Orders, bars...)
	for _, r := range d.Rows {
		if !r.Same && !r.Own() {
			d.Differs++
		}
	}
	s.show(c, http.StatusOK, "compare", page.View{Title: s.say(c, "compare.title"), Nav: "/runs", Data: d, Wide: true, Scripts: []string{"timeline.js"}})
}

// chooseTwo shows the form that names the runs.
func (s *server) chooseTwo(c *gin.Context, given string) {
	lines, err := s.runLines(c.Request.Context())
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	d := &comparePage{WantA: given}
	for _, l := range lines {
		if l.Report != nil {
			d.Lines = append(d.Lines, l)
		}
	}
	s.show(c, http.StatusOK, "compare", page.View{Title: s.say(c, "compare.title"), Nav: "/runs", Data: d})
}
