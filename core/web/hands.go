package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
)

// hands is the interactive side of a chapter: what a reader can do by hand, and how
// things stand.
type hands struct {
	Chapter lab.Chapter
	Bus     lab.BusInfo
	// Network: the bus has a plug that can be pulled.
	Network bool
	Outage  *outage // nil: none is on
	// Unread: the tables could not be read, so what follows is unknown.
	Unread                                        bool
	Outbox                                        outboxFigures
	Failed                                        []outbox.Row
	Done                                          *confirmed // nil: nothing was just given back
	Place, Fail, Pause, Resume, Plug, Heal, Retry string     // the same as commands
}

// outage is an outage that is on now.
type outage struct {
	Expires time.Time
	Left    int // seconds
	Hits    int64
}

// failedShown is how many failed rows a chapter's page lists.
const failedShown = 5

func (s *server) handsOf(c *gin.Context, ch lab.Chapter, b lab.BusInfo) *hands {
	chapter := strconv.Itoa(ch.Number)
	path := "/demo/chaos/broker/" + b.Name
	order := []string{"user_id", "u1", "items", "A,B", "bus", b.Name}
	h := &hands{Chapter: ch, Bus: b, Done: confirmedIn(c, ch.Number), Network: b.Name != "inmemory" && b.State != lab.Off,
		Place:  curl(c, http.MethodPost, "/chapters/"+chapter+"/orders", order...),
		Fail:   curl(c, http.MethodPost, "/chapters/"+chapter+"/orders", append(order, "fail", "1")...),
		Plug:   curl(c, http.MethodPost, path, "seconds", seconds(lab.DefaultChaos)),
		Heal:   curl(c, http.MethodDelete, path),
		Pause:  curl(c, http.MethodPost, "/demo/chaos/pause-outbox", "chapter", chapter),
		Resume: curl(c, http.MethodPost, "/demo/chaos/resume-outbox", "chapter", chapter),
		Retry:  curl(c, http.MethodPost, "/admin/outbox/retry", "chapter", chapter)}
	for _, o := range s.live.Outages() {
		if o.Name == b.Name {
			h.Outage = &outage{o.Expires, max(0, int(o.Expires.Sub(s.opt.Now()).Seconds())), o.Hits}
		}
	}
	if ch.Outbox {
		ctx, cancel := context.WithTimeout(c.Request.Context(), pingLimit)
		defer cancel()
		if err := s.readHands(ctx, h); err != nil {
			s.opt.Log.Warn("a chapter's tables cannot be read", "chapter", ch.Number, "error", err)
			h.Unread = true
		}
	}
	return h
}

func (s *server) readHands(ctx context.Context, h *hands) (err error) {
	if h.Outbox, err = s.figures(ctx, h.Chapter); err != nil {
		return fmt.Errorf("figures: %w", err)
	}
	h.Failed, err = outbox.Failed(ctx, s.live.DB(h.Chapter.Number), outbox.Filter{Limit: failedShown})
	return err
}
