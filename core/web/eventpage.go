package web

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
	"outboxplayground/core/web/picture"
)

// eventPage is what the tables say about one event, and its timeline where a run
// has kept one.
type eventPage struct {
	audit.Trail
	Fate     string
	Next     []next
	Run      *lab.Report // nil: an order that somebody placed by hand
	Number   int         // of the order in its run
	Answer   string      // what the client was told in the run
	Timeline *picture.Timeline
	Chapter  lab.Chapter
	// Failed and Dead are the row and the letter that a person can give back; 0 is none.
	Failed, Dead int64
	Done         *confirmed // nil: it was not just given back
}

// showEvent answers with the trail of an event, as a page for a browser. report and
// event are of the run that placed it, nil if none did.
func (s *server) showEvent(c *gin.Context, a *trailAnswer, report *lab.Report, event *lab.EventTrail) {
	if !wantsPage(c) {
		reply(c, http.StatusOK, a)
		return
	}
	d := &eventPage{Trail: a.Trail, Next: a.Next, Run: report, Fate: picture.Fate(lab.EventTrail{Trail: a.Trail})}
	d.Chapter, _ = s.live.Chapter(a.Chapter)
	if done := confirmedIn(c, a.Chapter); done != nil && done.EventID == a.EventID {
		d.Done = done
	}
	v := page.View{Title: s.say(c, "event.title"), Nav: "", Data: d, Wide: true}
	switch {
	case event != nil:
		t := s.timeline(c, *report, *event)
		d.Timeline, d.Number, d.Answer = &t, event.Order, event.Answer
		v.Scripts = []string{"timeline.js"}
	case a.Valid == audit.Unknown:
		v.Refresh = refreshSeconds
	case a.Verdict.Stuck == 1 && a.Outbox != nil && a.Outbox.Status == "failed":
		d.Failed = a.Outbox.ID
	case a.Verdict.Stuck == 1:
		d.Dead = dead(a.Trail).ID
	}
	s.show(c, http.StatusOK, "event", v)
}

// timeline draws an event of a run in the reader's language.
func (s *server) timeline(c *gin.Context, r lab.Report, e lab.EventTrail) picture.Timeline {
	ch, _ := s.live.Chapter(r.Chapter)
	return picture.NewTimeline(s.plain(c), e, r.Broken, ch.Outbox)
}

// plain says the sentences of the pages as plain text, for pictures.
func (s *server) plain(c *gin.Context) picture.Say {
	return picture.Say(s.pages.Plain(readerOf(c).Lang))
}
