package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/prepared"
)

// endings are the two calls between which a person has to choose.
func endings(c *gin.Context, chapter int, eventID string) []next {
	number, path := strconv.Itoa(chapter), "/admin/prepared/"+eventID
	return []next{
		{"commit it: the order exists", curl(c, http.MethodPost, path+"/commit", "chapter", number)},
		{"roll it back: it has never been", curl(c, http.MethodPost, path+"/rollback", "chapter", number)},
	}
}

// endedAnswer says what a person has decided, and what that means.
type endedAnswer struct {
	EventID string `json:"event_id"`
	GID     string `json:"gid"`
	Chapter int    `json:"chapter"`
	Outcome string `json:"outcome"` // committed or rolled_back
	Handled bool   `json:"handled"` // the listener had handled the event when it was decided
	Note    string `json:"note"`
	Next    []next `json:"next"`
}

// endPrepared decides instead of the coordinator that did not.
func (s *server) endPrepared(commit bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		ch, p := s.withPrepared(c)
		if p != nil {
			fail(c, p)
			return
		}
		id := strings.TrimPrefix(c.Param("event_id"), ch.Schema()+".")
		event, wrong := parseEventID(id)
		if wrong == nil {
			id = event
		}
		t, err := prepared.Find(c.Request.Context(), s.live.DB(ch.Number), ch.Schema(), id)
		switch {
		case errors.Is(err, prepared.ErrUnknown):
			fail(c, s.notPrepared(c, ch, id))
		case err != nil:
			fail(c, s.failed(c, err))
		case wrong != nil:
			fail(c, newProblem(http.StatusConflict, "not_in_doubt", "no order has this name: somebody else has prepared the transaction",
				"end it where it was begun, with COMMIT PREPARED or ROLLBACK PREPARED"))
		case !inDoubt(ch, t):
			fail(c, stillUnderWay(ch, t))
		default:
			s.end(c, ch, t, commit)
		}
	}
}

func (s *server) end(c *gin.Context, ch lab.Chapter, t prepared.Transaction, commit bool) {
	trail, err := audit.Event(c.Request.Context(), s.live.Source(ch), s.live.Backlog, t.EventID)
	if err != nil && !errors.Is(err, audit.ErrUnknown) {
		fail(c, s.failed(c, err))
		return
	}
	a := &endedAnswer{EventID: t.EventID, GID: t.GID, Chapter: ch.Number, Handled: len(trail.Processed) > 0}
	say := prepared.Rollback
	if commit {
		say = prepared.Commit
	}
	// The caller may hang up; what was asked for is said all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), placeLimit)
	defer cancel()
	switch err := say(ctx, s.live.DB(ch.Number), t.GID); {
	case errors.Is(err, prepared.ErrUnknown), errors.Is(err, prepared.ErrBusy):
		fail(c, newProblem(http.StatusConflict, "not_in_doubt", "somebody else was faster: "+t.GID+" is ended, or about to be",
			"GET /audit/event/"+t.EventID+" says how"))
	case pg.Unavailable(err):
		fail(c, newProblem(http.StatusServiceUnavailable, "end_unknown", "PostgreSQL cannot be reached, or its answer was lost",
			"GET /admin/prepared tells: what is ended is not listed any more"))
	case err != nil:
		fail(c, s.failed(c, err))
	default:
		a.explain(c, commit)
		reply(c, http.StatusOK, a)
	}
}

// explain says what the decision means: each is right in one world, and nobody can
// know which one this is unless the event was handled.
func (a *endedAnswer) explain(c *gin.Context, commit bool) {
	a.Outcome = "rolled_back"
	if commit {
		a.Outcome = "committed"
	}
	switch {
	case commit && a.Handled:
		a.Note = "the order exists now, and its event was handled: both or nothing, late"
	case commit:
		a.Note = "the order exists now, and its event was not handled: if it was never sent, the order is lost to everybody who waits for the event"
	case a.Handled:
		a.Note = "the order has never been, and its event was handled: a phantom, which nobody can call back"
	default:
		a.Note = "the order has never been, and its event was not handled: nothing happened, unless the event was sent and is still to come"
	}
	a.Next = []next{{"what became of it", curl(c, http.MethodGet, "/audit/event/"+a.EventID, "chapter", strconv.Itoa(a.Chapter))}}
}

// WriteText writes the decision as text.
func (a *endedAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "event_id\t%s\noutcome\t%s\nhandled\t%t\nnote\t%s\n", a.EventID, a.Outcome, a.Handled, a.Note)
	writeNext(w, a.Next)
	return w.Flush()
}

// notPrepared tells an event that is decided from one that nobody knows.
func (s *server) notPrepared(c *gin.Context, ch lab.Chapter, id string) *problem {
	event, err := parseEventID(id)
	if err == nil {
		_, err = audit.Event(c.Request.Context(), s.live.Source(ch), s.live.Backlog, event)
		if err == nil {
			return newProblem(http.StatusConflict, "not_in_doubt", "no transaction of this event is prepared: it is decided",
				"GET /audit/event/"+event+" says how")
		}
		if !errors.Is(err, audit.ErrUnknown) {
			return s.failed(c, err)
		}
	}
	return newProblem(http.StatusNotFound, "event_unknown",
		fmt.Sprintf("chapter %d has no prepared transaction %q, and no row of such an event", ch.Number, shorten(id)),
		"GET /admin/prepared lists them")
}

// stillUnderWay: a person who is faster than a living coordinator decides against it.
func stillUnderWay(ch lab.Chapter, t prepared.Transaction) *problem {
	left := ch.InDoubtAfter - time.Duration(t.AgeMS)*time.Millisecond
	p := newProblem(http.StatusConflict, "not_in_doubt",
		fmt.Sprintf("prepared %d ms ago: its coordinator may be about to end it", t.AgeMS),
		fmt.Sprintf("it is in doubt when it is older than %v", ch.InDoubtAfter))
	p.retryAfter = strconv.Itoa(int(left.Seconds()) + 1)
	return p
}
