package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/web/page"
	"outboxplayground/core/web/picture"
)

// exportRun is a finished run as one file that needs nothing else: styles and the
// stepping of the timeline are inside, links lead back to this playground.
func (s *server) exportRun(c *gin.Context) {
	id := c.Param("run")
	res, p := s.finished(c, id)
	if p != nil {
		fail(c, p)
		return
	}
	d := &runPage{runView: s.viewResult(c, res), Report: &res.Report, Page: 1}
	d.tell(s, c, res)
	for _, e := range res.Trails {
		d.Events = append(d.Events, runEvent{e.Order, e.Trail.EventID, picture.Fate(e), e.Answer})
	}
	raw, err := json.MarshalIndent(res.Report, "", "  ")
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	d.JSON = string(raw)
	var b bytes.Buffer
	if err := s.pages.WriteAlone(&b, "result", readerOf(c), page.View{Title: s.say(c, "run.title", id), Data: d, Wide: true}, "timeline.js"); err != nil {
		fail(c, s.failed(c, err))
		return
	}
	file := b.String()
	if d.Smallest != nil && d.IsSmallest { // its timeline is in the file
		file = strings.Replace(file, `class="button" href="/audit/event/`+d.Smallest.EventID+`"`, `class="button" href="#shown"`, 1)
	}
	c.Header("Content-Disposition", `attachment; filename="run-`+id+`.html"`)
	c.Data(http.StatusOK, "text/html; charset=utf-8", []byte(strings.ReplaceAll(file, ` href="/`, ` href="`+base(c)+"/")))
}
