package web

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
	"outboxplayground/core/web/page"
)

// failedPage is the list of rows that need a person, for a browser.
type failedPage struct {
	failedAnswer
	Bus, Error string
	Limit      int
	Total      int64 // failed rows of the chapter on that bus, whatever the error
	Buses      []lab.BusInfo
	Chapters   []lab.Chapter // those with an outbox
	Done       *confirmed    // what was just given back; nil: nothing
	More       string        // the address of the next page, "" on the last one
	Curl, Bulk string
}

func (s *server) showFailed(c *gin.Context, ch lab.Chapter, f outbox.Filter, a *failedAnswer) {
	d := &failedPage{failedAnswer: *a, Done: confirmedIn(c, ch.Number), Bus: f.Bus, Error: f.Error, Limit: f.Limit, Buses: s.live.Buses()}
	for _, other := range s.live.Chapters() {
		if other.Outbox {
			d.Chapters = append(d.Chapters, other)
		}
	}
	figures, err := s.figures(c.Request.Context(), ch)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	d.Total = figures.Failed
	if f.Bus != "" {
		d.Total = figures.ByBus[f.Bus].Failed
	}
	pairs := withoutNone("chapter", strconv.Itoa(ch.Number), "bus", f.Bus, "error", f.Error)
	d.Curl, d.Bulk = curl(c, http.MethodGet, "/admin/outbox/failed", pairs...), curl(c, http.MethodPost, "/admin/outbox/retry", pairs...)
	if a.NextAfter != nil {
		d.More = "/admin/outbox/failed?" + query(append(pairs, "after", strconv.FormatInt(*a.NextAfter, 10), "limit", strconv.Itoa(f.Limit))...)
	}
	s.show(c, http.StatusOK, "failed", page.View{Title: s.say(c, "failed.title"), Nav: "/admin/outbox/failed", Data: d, Wide: true})
}

// withoutNone leaves out the pairs that have no value.
func withoutNone(pairs ...string) (kept []string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			kept = append(kept, pairs[i], pairs[i+1])
		}
	}
	return kept
}

// deadPage is the list of messages that need a person, for a browser.
type deadPage struct {
	deadAnswer
	Bus, Reason, Status string
	Total               *inbox.Stats
	Buses               []lab.BusInfo
	Done                *confirmed
	More                string
	Curl, Bulk          string
}

func (s *server) showDead(c *gin.Context, ch lab.Chapter, f inbox.Filter, a *deadAnswer) {
	d := &deadPage{deadAnswer: *a, Done: confirmedIn(c, ch.Number), Bus: f.Bus, Reason: f.Reason, Status: f.Status, Buses: s.live.Buses()}
	figures, err := s.figures(c.Request.Context(), ch)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	d.Total = figures.inbox
	pairs := withoutNone("chapter", strconv.Itoa(ch.Number), "bus", f.Bus, "reason", f.Reason)
	d.Bulk = curl(c, http.MethodPost, "/admin/dead-letters/replay", pairs...)
	pairs = append(pairs, withoutNone("status", f.Status)...)
	d.Curl = curl(c, http.MethodGet, "/admin/dead-letters", pairs...)
	if a.NextAfter != nil {
		d.More = "/admin/dead-letters?" + query(append(pairs, "after", strconv.FormatInt(*a.NextAfter, 10), "limit", strconv.Itoa(f.Limit))...)
	}
	s.show(c, http.StatusOK, "dead", page.View{Title: s.say(c, "dead.title"), Nav: "/admin/outbox/failed", Data: d, Wide: true})
}
