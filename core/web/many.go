package web

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/outbox"
)

// longestBy bounds the name of who asks.
const longestBy = 100

// whoAsks is the name that is kept with a retry or replay; "" leaves it to the table.
func whoAsks(in input) (string, *problem) {
	by, given := in.str("by")
	if n := utf8.RuneCountInString(by); given && (n < 1 || n > longestBy) {
		return "", invalid(fieldError{"by", fmt.Sprintf("must be 1 to %d characters", longestBy)})
	}
	return by, nil
}

// manyAnswer counts what a call over a filter has changed.
type manyAnswer struct {
	Chapter int    `json:"chapter"`
	Count   int64  `json:"count"`
	Next    []next `json:"next"`

	what string
}

// WriteText writes the count as text.
func (a *manyAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "chapter\t%d\n%s\t%d\n", a.Chapter, a.what, a.Count)
	writeNext(w, a.Next)
	return w.Flush()
}

// retryRows makes all failed rows of a filter pending again.
func (s *server) retryRows(c *gin.Context) {
	ch, p := s.withOutbox(c)
	if p != nil {
		fail(c, p)
		return
	}
	f, p := s.filter(inputOf(c))
	by, q := whoAsks(inputOf(c))
	if p == nil {
		p = q
	}
	if p != nil {
		fail(c, p)
		return
	}
	f.Limit = 0 // all of them
	n, err := outbox.RetryAll(c.Request.Context(), s.live.DB(ch.Number), f, by)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	if wantsPage(c) {
		confirm(c, confirmed{Chapter: ch.Number, N: n})
		back(c, "/chapters/"+itoa(ch.Number))
		return
	}
	reply(c, http.StatusAccepted, &manyAnswer{Chapter: ch.Number, Count: n, what: "rows pending again", Next: []next{{"what becomes of them",
		curl(c, http.MethodGet, "/metrics", "chapter", strconv.Itoa(ch.Number))}}})
}
