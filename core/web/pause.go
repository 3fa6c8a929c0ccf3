package web

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
)

// pauseAnswer says what the switch stands at now.
type pauseAnswer struct {
	Paused  bool   `json:"paused"`
	Chapter int    `json:"chapter"`
	Next    []next `json:"next"`
}

// pause stops or resumes the outbox worker of a chapter. When it has answered
// "paused": true, no worker on any machine claims another row.
func (s *server) pause(paused bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		ch, p := s.withOutbox(c)
		if p != nil {
			fail(c, p)
			return
		}
		if err := s.live.Pause(c.Request.Context(), ch.Number, paused); err != nil {
			fail(c, s.failed(c, err))
			return
		}
		chapter := strconv.Itoa(ch.Number)
		if wantsPage(c) {
			back(c, "/chapters/"+chapter)
			return
		}
		a := &pauseAnswer{Paused: paused, Chapter: ch.Number, Next: []next{
			{"what is pending", curl(c, http.MethodGet, "/metrics", "chapter", chapter)}}}
		if paused {
			a.Next = append(a.Next, next{"let it go on", curl(c, http.MethodPost, "/demo/chaos/resume-outbox", "chapter", chapter)})
		}
		reply(c, http.StatusOK, a)
	}
}

// WriteText writes the answer as text.
func (a *pauseAnswer) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "paused   %t\nchapter  %d\n", a.Paused, a.Chapter)
	return err
}
