package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// busesAnswer is a plain list, as the contract has it.
type busesAnswer []busAnswer

// busAnswer is a bus with all its fields, empty ones too.
type busAnswer struct {
	Name        string   `json:"name"`
	Mode        string   `json:"mode"`
	State       string   `json:"state"`
	Version     string   `json:"version"`
	Note        string   `json:"note"`
	Fix         string   `json:"fix"`
	NotModelled []string `json:"not_modelled"`
	Default     bool     `json:"default"`
}

func (s *server) buses(c *gin.Context) {
	if wantsPage(c) {
		s.showBuses(c)
		return
	}
	reply(c, http.StatusOK, s.answerBuses())
}

func (s *server) answerBuses() busesAnswer {
	list := busesAnswer{}
	for _, b := range s.live.Buses() {
		a := busAnswer{b.Name, b.Mode, b.State, b.Version, b.Note, b.Fix, b.NotModelled, b.Default}
		if a.NotModelled == nil {
			a.NotModelled = []string{}
		}
		list = append(list, a)
	}
	return list
}

// WriteText writes the buses as an aligned table.
func (a busesAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "bus\tmode\tstate\tversion\tnote\n")
	for _, b := range a {
		name, note := b.Name, b.Note
		if b.Default {
			name += " (default)"
		}
		if b.Fix != "" {
			note += "; " + b.Fix
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, b.Mode, b.State, b.Version, note)
		if len(b.NotModelled) > 0 {
			fmt.Fprintf(w, "\t\t\t\tnot modelled: %s\n", strings.Join(b.NotModelled, "; "))
		}
	}
	return w.Flush()
}

// healthAnswer says how the process is.
type healthAnswer struct {
	Status   string      `json:"status"`
	Postgres string      `json:"postgres,omitempty"`
	Buses    busesAnswer `json:"buses,omitempty"`
}

// WriteText writes the status, and the buses if they belong to it.
func (a *healthAnswer) WriteText(w io.Writer) error {
	if _, err := fmt.Fprintln(w, a.Status); err != nil || len(a.Buses) == 0 {
		return err
	}
	return a.Buses.WriteText(w)
}

// healthz answers as long as the process does: it asks nobody else.
func (s *server) healthz(c *gin.Context) { reply(c, http.StatusOK, &healthAnswer{Status: "ok"}) }

// pingLimit is short: a probe that hangs is a failed probe.
const pingLimit = 2 * time.Second

// readyz asks the database. Buses are listed but not required: an order waits for
// none of them from chapter 3 on.
func (s *server) readyz(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), pingLimit)
	defer cancel()
	if err := s.ping(ctx); err != nil {
		s.opt.Log.Warn("not ready", "error", err)
		fail(c, databaseUnavailable())
		return
	}
	reply(c, http.StatusOK, &healthAnswer{Status: "ready", Postgres: lab.Ready, Buses: s.answerBuses()})
}

// ping asks through one chapter's pool: all of them lead to the same server.
func (s *server) ping(ctx context.Context) error {
	chapters := s.live.Chapters()
	if len(chapters) == 0 {
		return nil
	}
	return s.live.DB(chapters[0].Number).Ping(ctx)
}
