package web

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// chapterPage is a lesson as a reader meets it: the story, a prediction, the run, and
// then why.
type chapterPage struct {
	Chapter        lab.Chapter
	Article        string // the address of the article; "" where the chapter goes beyond it
	Story, Predict *page.Section
	Rest           []page.Section
	FellBack       bool // the text is not translated
	Open           bool // the rest is unfolded: a run has been seen
	Sources        []page.Source
	Before         lab.Chapter // the chapter that Changes compares with
	Changes        []page.DiffLine
	Experiment     *experiment
	Run            *runView // nil before the first one
	Hands          *hands
	Played         bool // opened from a link that somebody passed on
	Previous, Next *lab.Chapter
	LabOff         bool
}

// chapterPage shows a chapter, or the experiment that a link passes on.
func (s *server) chapterPage(c *gin.Context, ch lab.Chapter, in input, played bool) {
	d := &chapterPage{Chapter: ch, Played: played, LabOff: s.opt.Lab == nil}
	var p *problem
	if id, given := in.str("run"); given && s.opt.Lab != nil {
		if d.Run, p = s.viewRun(c, id); p != nil {
			fail(c, p)
			return
		}
		in = d.Run.fill(in, ch.Number)
	}
	if d.Experiment, p = s.experimentOf(c, ch, in); p != nil {
		fail(c, p)
		return
	}
	d.Sources = sourcesOf(ch, d.Experiment.Variant.Name)
	if err := s.readText(d, readerOf(c).Lang); err != nil {
		fail(c, s.failed(c, err))
		return
	}
	d.Before, d.Changes, _ = s.changesSince(ch)
	d.Previous, d.Next = s.neighbours(ch)
	d.Open = d.Run != nil && d.Run.Over()
	d.Hands = s.handsOf(c, ch, d.Experiment.Bus)
	noteProgress(c, ch.Number, opened)
	lang := readerOf(c).Lang
	title, _ := lang.Pick(ch.Title)
	v := page.View{Title: page.Escaped(title), Data: d, Wide: true, Predicts: !d.LabOff, Scripts: []string{"run.js", "hands.js"}}
	if d.Run != nil && !d.Run.Over() {
		v.Refresh = refreshSeconds
	}
	s.show(c, http.StatusOK, "chapter", v)
}

// readText renders the text and sets its first two sections apart: the reader meets
// them before the form, everything else after it.
func (s *server) readText(d *chapterPage, l page.Lang) error {
	sections, fellBack, err := s.sectionsOf(d.Chapter, d.Experiment.Variant.Name, l)
	if err != nil {
		return err
	}
	d.FellBack = fellBack
	if len(sections) >= 2 {
		d.Story, d.Predict, d.Rest = &sections[0], &sections[1], sections[2:]
	}
	return nil
}

func (s *server) neighbours(ch lab.Chapter) (before, after *lab.Chapter) {
	for _, other := range s.live.Chapters() {
		switch {
		case other.Number < ch.Number:
			before = &other
		case other.Number > ch.Number && after == nil:
			after = &other
		}
	}
	return before, after
}

// chapterFile shows one of the chapter's compiled files.
func (s *server) chapterFile(c *gin.Context) {
	ch, p := s.chapterNamed(c.Param("n"), http.StatusNotFound)
	if p != nil {
		fail(c, p)
		return
	}
	name := c.Param("file")
	code, ok := fileOf(ch, name)
	if !ok {
		fail(c, notFound(c.Request.URL.Path))
		return
	}
	if !wantsPage(c) {
		c.Data(http.StatusOK, "text/plain; charset=utf-8", []byte(code))
		return
	}
	var marks []string
	for _, l := range ch.Lessons {
		if l.File == name {
			marks = l.Marks
		}
	}
	s.show(c, http.StatusOK, "source", page.View{Title: page.Escaped(name), Wide: true, Data: struct {
		Chapter lab.Chapter
		Source  page.Source
	}{ch, page.NewSource(name, code, marks)}})
}
