package web

import (
	"html/template"
	"maps"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
	"outboxplayground/core/web/picture"
)

// runView is a run for the template "verdict", in whatever state it is.
type runView struct {
	ID, State, Error, Stage string
	Placed, Total           int

	Chapter                       int
	Variant, Bus, Mode, Version   string
	Fault, Outage                 string
	Seed                          uint64
	Valid                         audit.Validity
	Orders, Delivered, Lost, Told int // Told: lost, and answered with success
	Late                          int // delivered after the outage
	Predicted                     *predicted
	PredictedStrip, Strip         template.HTML
	Counts                        []outcomeCount
	Lesson                        bool
	Declared, Differs, Why        string
	Headline, FaultText           template.HTML
	Broken, AlsoBroken            []string
	Smallest                      *lab.Smallest
	Cause                         cause         // of the smallest
	Lines                         []page.Source // the marked ones of the lesson
	AsOf                          time.Time
	Suggestions                   []suggestion
}

// outcomeCount is an outcome and how often it came.
type outcomeCount struct {
	Word string
	N    int
}

// Over tells whether the run will not change any more.
func (v *runView) Over() bool { return v.State == lab.Done || v.State == lab.Failed }

// fill adds to what an address says what the run was made with, so that the form
// under a verdict is the run's own.
func (v *runView) fill(in input, chapter int) input {
	if v.Chapter != chapter {
		return in
	}
	full := input{"variant": v.Variant, "bus": v.Bus, "fault": v.Fault, "orders": int64(v.Total), "seed": v.Seed}
	if v.Outage != "" {
		full["outage"] = v.Outage
	}
	maps.Copy(full, in)
	return full
}

// viewRun finds a run, in the queue or among the stored ones.
func (s *server) viewRun(c *gin.Context, id string) (*runView, *problem) {
	t, remembered := s.opt.Lab.Queue.Get(id)
	if remembered && t.State != lab.Done {
		return s.viewTicket(t), nil
	}
	res, p := s.stored(c, id)
	if p != nil {
		return nil, p
	}
	return s.viewResult(c, res), nil
}

func (s *server) viewTicket(t lab.Ticket) *runView {
	v := &runView{ID: t.ID, State: t.State, Error: t.Error, Stage: t.State, Total: t.Spec.Orders, Chapter: t.Spec.Chapter,
		Variant: t.Spec.Variant, Bus: t.Spec.Bus, Fault: t.Spec.Fault, Seed: t.Spec.Seed, Outage: outageText(t.Spec.Outage)}
	if events, _, _, ok := s.opt.Lab.Queue.Events(t.ID, 0); ok && len(events) > 0 {
		last := events[len(events)-1]
		v.Stage, v.Placed = last.Stage, last.Done
	}
	return v
}

func (s *server) viewResult(c *gin.Context, res lab.Result) *runView {
	r := res.Report
	v := &runView{ID: r.ID, State: lab.Done, Chapter: r.Chapter, Variant: r.Variant, Bus: r.Bus, Mode: r.Mode, Version: r.Version,
		Seed: r.Seed, Outage: r.Outage, Valid: r.Valid, Orders: r.Measured.Orders, Delivered: r.Measured.Delivered, Lost: r.Measured.Lost, Late: r.Late,
		Counts: outcomesOf(r), Declared: r.Declared, Why: r.Why, Broken: r.Not, AlsoBroken: r.AlsoNot, Smallest: r.Smallest,
		AsOf: r.AsOf, Suggestions: s.suggest(c, r), Strip: strip(res), Told: told(res), Headline: s.headline(c, r), Total: len(res.Trails), Placed: len(res.Trails)}
	if len(r.Faults) > 0 {
		v.Fault, v.FaultText = r.Faults[0].Name, s.faultWords(c, r.Faults[0])
	}
	if r.Standard && r.Declared != "" && r.Declared != "n/a" {
		v.Differs = lab.Agrees(r.Declared, r)
		v.Lesson = r.Valid == audit.False && v.Differs == ""
	}
	if r.Smallest != nil {
		v.Cause = s.causeOf(c, r.Smallest.Why)
	}
	if v.Predicted = predictedIn(r); v.Predicted != nil && v.Predicted.Delivered() {
		v.PredictedStrip = predictedStrip(v.Predicted.N, len(res.Trails))
	}
	if ch, ok := s.live.Chapter(r.Chapter); ok {
		v.Lines = markedLines(ch, r.Variant)
	}
	return v
}

// outcomesOf lists what came of a run; where nothing bad did, that all is well.
func outcomesOf(r lab.Report) (list []outcomeCount) {
	m := r.Measured
	for _, o := range []outcomeCount{{"delivered", m.Delivered}, {"lost", m.Lost}, {"duplicated", m.Duplicated}, {"phantom", m.Phantom},
		{"reordered", m.Reordered}, {"stuck", m.Stuck}, {"refused", m.Refused}, {"pending", m.Pending}} {
		if o.N > 0 {
			list = append(list, o)
		}
	}
	return list
}

// told counts the lost orders whose client was answered with success.
func told(res lab.Result) (n int) {
	for _, t := range res.Trails {
		if t.Trail.Verdict.Lost > 0 && t.Answer == "created" {
			n++
		}
	}
	return n
}

// strip draws what became of each order.
func strip(res lab.Result) template.HTML {
	words := make([]string, len(res.Trails))
	for i, t := range res.Trails {
		words[i] = picture.Fate(t)
	}
	return page.Strip(words)
}

func predictedStrip(predicted, orders int) template.HTML {
	words := make([]string, orders)
	for i := range words {
		words[i] = "not-predicted"
		if i < predicted {
			words[i] = "predicted"
		}
	}
	return page.Strip(words)
}

// suggestion is a run that suggests itself after another one.
type suggestion struct {
	Label      template.HTML
	Link, Curl string
}

// suggest changes one thing at a time: nothing, the way of doing it, the chapter.
func (s *server) suggest(c *gin.Context, r lab.Report) (list []suggestion) {
	ch, ok := s.live.Chapter(r.Chapter)
	if !ok || len(r.Faults) == 0 {
		return nil
	}
	fault, _ := lab.FaultNamed(r.Faults[0].Name)
	add := func(in lab.Chapter, variant string, label template.HTML) {
		chapter := itoa(in.Number)
		pairs := withoutNone("variant", variant, "bus", r.Bus, "fault", fault.Name, "outage", r.Outage)
		list = append(list, suggestion{label,
			"/chapters/" + chapter + "?" + query(pairs...),
			curl(c, http.MethodPost, "/runs", append(pairs, "chapter", chapter)...)})
	}
	add(ch, r.Variant, s.say(c, "verdict.change.again"))
	for _, v := range ch.Variants {
		if v.Name != r.Variant {
			add(ch, v.Name, s.say(c, "verdict.change.variant", v.Name))
			break
		}
	}
	if _, after := s.neighbours(ch); after != nil && fault.NotApplicable(*after, r.Bus) == "" {
		add(*after, after.Variants[0].Name, s.say(c, "verdict.change.chapter", after.Number))
	}
	return list
}

// refreshSeconds is how often a page without JavaScript looks at a run again.
const refreshSeconds = 2
