package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// keepAlive is how often a silent stream says that it lives.
const keepAlive = 10 * time.Second

// runEvents streams a run's progress: server-sent events, or NDJSON where that is
// asked for. Last-Event-ID, or ?after=, resumes after an event that was seen. The
// stream ends with the run.
func (s *server) runEvents(c *gin.Context) {
	id := c.Param("run")
	if _, ok := s.opt.Lab.Queue.Get(id); !ok {
		fail(c, newProblem(http.StatusNotFound, "run_unknown",
			"the progress of this run is not remembered: it is unknown, or over since long", "GET /runs/"+shorten(id)+" has the result"))
		return
	}
	after, _ := inputOf(c)["after"].(int64)
	if last, err := strconv.Atoi(c.GetHeader("Last-Event-ID")); err == nil {
		after = int64(last)
	}
	ndjson := strings.Contains(c.GetHeader("Accept"), "ndjson")
	c.Header("Content-Type", "text/event-stream")
	if ndjson {
		c.Header("Content-Type", "application/x-ndjson")
	}
	c.Status(http.StatusOK)
	// The stream may outlast the server's limit for ordinary answers.
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Time{})
	s.stream(c, id, int(after), ndjson)
}

func (s *server) stream(c *gin.Context, id string, after int, ndjson bool) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		events, over, more, ok := s.opt.Lab.Queue.Events(id, after)
		for _, e := range events {
			line, err := json.Marshal(e)
			if err != nil {
				return
			}
			after = e.Seq
			if ndjson {
				_, err = fmt.Fprintf(c.Writer, "%s\n", line)
			} else {
				_, err = fmt.Fprintf(c.Writer, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Stage, line)
			}
			if err != nil {
				return
			}
		}
		c.Writer.Flush()
		if over || !ok {
			return
		}
		select {
		case <-c.Request.Context().Done():
			return
		case <-s.opt.Stopping:
			return
		case <-more:
		case <-tick.C:
			if !ndjson {
				_, _ = c.Writer.WriteString(": alive\n\n")
			}
		}
	}
}
