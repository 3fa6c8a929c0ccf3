package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
)

// replayAnswer says that a replay was asked for. What comes of it is in the letter.
type replayAnswer struct {
	ID      int64  `json:"id"`
	Chapter int    `json:"chapter"`
	Status  string `json:"status"`
	Next    []next `json:"next"`
}

func (s *server) replayLetter(c *gin.Context) {
	ch, p := s.withDeadLetters(c)
	by, q := whoAsks(inputOf(c))
	if p == nil {
		p = q
	}
	if p != nil {
		fail(c, p)
		return
	}
	id, err := rowID(c)
	if err != nil {
		fail(c, unknownLetter(ch, c.Param("id")))
		return
	}
	chapter := strconv.Itoa(ch.Number)
	switch err := inbox.Replay(c.Request.Context(), s.live.DB(ch.Number), id, by); {
	case errors.Is(err, inbox.ErrUnknown):
		fail(c, unknownLetter(ch, c.Param("id")))
	case errors.Is(err, inbox.ErrNotDead):
		fail(c, newProblem(http.StatusConflict, "not_dead", fmt.Sprintf("dead letter %d was replayed, or its replay is under way", id),
			"GET /admin/dead-letters?status=dead lists those that wait"))
	case err != nil:
		fail(c, s.failed(c, err))
	case wantsPage(c):
		confirm(c, confirmed{Chapter: ch.Number, EventID: s.eventOfLetter(c, ch, id), N: 1})
		back(c, "/admin/dead-letters?chapter="+chapter)
	default:
		reply(c, http.StatusAccepted, &replayAnswer{id, ch.Number, inbox.Requested, []next{{"what becomes of it",
			curl(c, http.MethodGet, "/admin/dead-letters", "chapter", chapter, "after", strconv.FormatInt(id-1, 10), "limit", "1")}}})
	}
}

// eventOfLetter is the event that a dead letter is about; "" where it names none.
func (s *server) eventOfLetter(c *gin.Context, ch lab.Chapter, id int64) string {
	letters, err := inbox.Letters(c.Request.Context(), s.live.DB(ch.Number), inbox.Filter{After: id - 1, Limit: 1})
	if err != nil || len(letters) == 0 || letters[0].EventID == nil {
		return ""
	}
	return *letters[0].EventID
}

func unknownLetter(ch lab.Chapter, id string) *problem {
	return newProblem(http.StatusNotFound, "letter_unknown",
		fmt.Sprintf("chapter %d has no dead letter %q", ch.Number, shorten(id)), "GET /admin/dead-letters lists them")
}

// WriteText writes the answer as text.
func (a *replayAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "letter\t%d\nstatus\t%s\n", a.ID, a.Status)
	writeNext(w, a.Next)
	return w.Flush()
}

func (s *server) replayLetters(c *gin.Context) {
	ch, p := s.withDeadLetters(c)
	if p != nil {
		fail(c, p)
		return
	}
	f, p := s.letterFilter(inputOf(c))
	by, q := whoAsks(inputOf(c))
	if p == nil {
		p = q
	}
	if p != nil {
		fail(c, p)
		return
	}
	n, err := inbox.ReplayAll(c.Request.Context(), s.live.DB(ch.Number), f, by)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	if wantsPage(c) {
		confirm(c, confirmed{Chapter: ch.Number, N: n})
		back(c, "/admin/dead-letters?chapter="+strconv.Itoa(ch.Number))
		return
	}
	reply(c, http.StatusAccepted, &manyAnswer{Chapter: ch.Number, Count: n, what: "replays asked for", Next: []next{{"what becomes of them",
		curl(c, http.MethodGet, "/admin/dead-letters", "chapter", strconv.Itoa(ch.Number))}}})
}
