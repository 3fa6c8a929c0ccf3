package web

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// playAnswer is an experiment that somebody passes on, not yet run.
type playAnswer struct {
	Spec     lab.Spec          `json:"spec"`
	Question lab.Text          `json:"question"`
	Next     []next            `json:"next"`
	Links    map[string]string `json:"links"`
}

func playParams() []param {
	return []param{text("ch"), text("bus"), number("n"), text("fault"), seedParam(), text("outage"), text("variant")}
}

// play opens the chapter's form with what the link names. Nothing is run: whoever
// follows the link shall predict, too.
func (s *server) play(c *gin.Context) {
	in := maps.Clone(inputOf(c))
	if n, given := in["n"]; given {
		in["orders"] = n
	}
	number, given := in.str("ch")
	if !given {
		number = strconv.Itoa(firstChapter)
	}
	ch, p := s.chapterNamed(number, http.StatusBadRequest)
	if p != nil {
		fail(c, p)
		return
	}
	if wantsPage(c) {
		s.chapterPage(c, ch, in, true)
		return
	}
	e, p := s.experimentOf(c, ch, in)
	if p != nil {
		fail(c, p)
		return
	}
	reply(c, http.StatusOK, &playAnswer{
		Spec:     lab.Spec{Chapter: ch.Number, Variant: e.Variant.Name, Bus: e.Bus.Name, Fault: e.Fault.Name, Orders: e.Orders, Seed: e.Seed, Outage: e.Outage},
		Question: ch.Question,
		Next:     e.predicting(),
		Links:    map[string]string{"page": base(c) + e.Link},
	})
}

// predicting are the commands with a prediction of what the chapter asks for.
func (e *experiment) predicting() []next {
	what, flag := "&predict=N", " --predict N"
	if !e.AsksDelivered() {
		what, flag = what+"&predict_what="+e.Chapter.AskedFor(), flag+" --predict-what "+e.Chapter.AskedFor()
	}
	return []next{{"predict and run it: put your number for N", strings.TrimSuffix(e.Curl, `"`) + what + `"`},
		{"the same on the command line", e.CLI + flag}}
}

// firstChapter is where a newcomer begins.
const firstChapter = 1

// WriteText writes the experiment as text.
func (a *playAnswer) WriteText(out io.Writer) error {
	w := newTable(out)
	fmt.Fprintf(w, "chapter\t%d %s\nbus\t%s\nfault\t%s\norders\t%d\nseed\t%d\nquestion\t%s\n\t%s\n", a.Spec.Chapter, a.Spec.Variant,
		a.Spec.Bus, a.Spec.Fault, a.Spec.Orders, a.Spec.Seed, a.Question.En, a.Question.ZhTW)
	writeNext(w, a.Next)
	return w.Flush()
}

// query writes parameters in the given order.
func query(pairs ...string) string {
	parts := []string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		parts = append(parts, url.QueryEscape(pairs[i])+"="+url.QueryEscape(pairs[i+1]))
	}
	return strings.Join(parts, "&")
}
