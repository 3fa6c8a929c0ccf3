package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

// doneCookie tells the next page what the form before it has done. Only the answer to
// that form sets it, so no link can claim something that never happened.
const (
	doneCookie = "done"
	doneAge    = 60 // seconds; the redirect that follows takes less
)

// confirmed is what a person has just given back: one event, or so many at once. A page
// says so and leads to what becomes of it.
type confirmed struct {
	Chapter int
	EventID string // "" where it were many
	N       int64
}

// confirm lets the next page of the chapter say what was done.
func confirm(c *gin.Context, d confirmed) {
	what := d.EventID
	if what == "" {
		what = strconv.FormatInt(d.N, 10)
	}
	http.SetCookie(c.Writer, &http.Cookie{Name: doneCookie, Value: strconv.Itoa(d.Chapter) + "." + what, Path: "/",
		MaxAge: doneAge, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// confirmedIn takes what was done in a chapter, for the page to say it once; nil where
// nothing was.
func confirmedIn(c *gin.Context, chapter int) *confirmed {
	done, ours := strings.CutPrefix(cookie(c, doneCookie), strconv.Itoa(chapter)+".")
	if !ours {
		return nil
	}
	remember(c, doneCookie, "")
	if n, err := strconv.ParseInt(done, 10, 64); err == nil && n >= 0 {
		return &confirmed{Chapter: chapter, N: n}
	}
	if id, err := parseEventID(done); err == nil {
		return &confirmed{Chapter: chapter, EventID: id, N: 1}
	}
	return nil
}
