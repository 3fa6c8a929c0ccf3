package web

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/audit"
	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
)

// trailAnswer is the trail with the calls that make sense after it.
type trailAnswer struct {
	audit.Trail
	Next  []next            `json:"next"`
	Links map[string]string `json:"links"`
}

// WriteText writes the trail, and what makes sense after it.
func (a *trailAnswer) WriteText(out io.Writer) error {
	if err := a.Trail.WriteText(out); err != nil {
		return err
	}
	w := newTable(out)
	writeNext(w, a.Next)
	return w.Flush()
}

// auditEvent looks in the named chapter, else in chapter 3 and then in the others:
// an id says nothing about its chapter.
func (s *server) auditEvent(c *gin.Context) {
	id, err := parseEventID(c.Param("event_id"))
	if err != nil {
		fail(c, invalid(fieldError{"event_id", err.Error()}))
		return
	}
	where, p := s.searched(c)
	if p != nil {
		fail(c, p)
		return
	}
	for _, ch := range where {
		t, err := audit.Event(c.Request.Context(), s.live.Source(ch), s.live.Backlog, id)
		switch {
		case errors.Is(err, audit.ErrUnknown):
			continue
		case err != nil:
			fail(c, s.failed(c, err))
		default:
			s.showEvent(c, answerTrail(c, t), nil, nil)
		}
		return
	}
	if s.auditedInRun(c, id) {
		return
	}
	p = newProblem(http.StatusNotFound, "event_unknown", fmt.Sprintf("no row tells of the event %s", id),
		"a rolled-back order leaves none; check the id, and the chapter if you named one")
	p.EventID = id
	fail(c, p)
}

// auditedInRun answers with the trail of an event that a run of the lab placed. Its
// tables are gone; what the run read in them is kept.
func (s *server) auditedInRun(c *gin.Context, id string) bool {
	if s.opt.Lab == nil {
		return false
	}
	report, event, err := lab.FindEvent(c.Request.Context(), s.opt.Lab.Results, id)
	switch {
	case errors.Is(err, lab.ErrNoRun):
		return false
	case err != nil:
		fail(c, s.failed(c, err))
	default:
		a := answerTrail(c, event.Trail)
		a.Next = []next{{"the run that placed it", curl(c, http.MethodGet, "/audit/run/"+report.ID)}}
		s.showEvent(c, a, &report, &event)
	}
	return true
}

// searched lists the chapters in which to look, in that order.
func (s *server) searched(c *gin.Context) ([]lab.Chapter, *problem) {
	if _, named := inputOf(c).str("chapter"); named {
		ch, p := s.chapterOf(c, inputOf(c))
		return []lab.Chapter{ch}, p
	}
	where := slices.Clone(s.live.Chapters())
	slices.SortStableFunc(where, func(a, b lab.Chapter) int {
		return cmp.Compare(btoi(a.Number != defaultChapter), btoi(b.Number != defaultChapter))
	})
	return where, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func answerTrail(c *gin.Context, t audit.Trail) *trailAnswer {
	chapter := strconv.Itoa(t.Chapter)
	again := curl(c, http.MethodGet, "/audit/event/"+t.EventID, "chapter", chapter)
	a := &trailAnswer{Trail: t, Links: map[string]string{"page": base(c) + "/chapters/" + chapter}}
	switch {
	case t.InDoubt != nil && t.Valid == audit.False:
		a.Next = endings(c, t.Chapter, t.EventID)
	case t.Verdict.Stuck == 1 && t.Outbox != nil && t.Outbox.Status == "failed":
		a.Next = []next{{"make the row pending again", curl(c, http.MethodPost,
			fmt.Sprintf("/admin/outbox/%d/retry", t.Outbox.ID), "chapter", chapter)}}
	case t.Verdict.Stuck == 1:
		a.Next = []next{{"handle it again", curl(c, http.MethodPost,
			fmt.Sprintf("/admin/dead-letters/%d/replay", dead(t).ID), "chapter", chapter)}}
	case t.Valid == audit.Unknown:
		a.Next = []next{{"look again", again}}
	default:
		a.Next = []next{{"place another order", curl(c, http.MethodPost, "/demo/place-order",
			"user_id", "u1", "items", "A,B", "chapter", chapter, "bus", t.Bus)}}
	}
	return a
}

// dead is the letter that made the event stuck.
func dead(t audit.Trail) (letter audit.DeadLetter) {
	for _, d := range t.DeadLetters {
		if d.Status == inbox.Dead {
			letter = d
		}
	}
	return letter
}
