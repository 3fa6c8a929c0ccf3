package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// defaultChapter is the article's: the outbox.
const defaultChapter = 3

// chapterOf returns the chapter that a request is about: the one in the path, else
// the parameter, else chapter 3.
func (s *server) chapterOf(c *gin.Context, in input) (lab.Chapter, *problem) {
	asked, given := in.str("chapter")
	if n := c.Param("n"); n != "" {
		if given && asked != n {
			return lab.Chapter{}, invalid(fieldError{"chapter", "the path names another chapter"})
		}
		return s.chapterNamed(n, http.StatusNotFound)
	}
	if !given {
		asked = strconv.Itoa(defaultChapter)
	}
	return s.chapterNamed(asked, http.StatusBadRequest)
}

func (s *server) chapterNamed(name string, status int) (lab.Chapter, *problem) {
	for _, ch := range s.live.Chapters() {
		if strconv.Itoa(ch.Number) == name {
			return ch, nil
		}
	}
	numbers := make([]string, len(s.live.Chapters()))
	for i, ch := range s.live.Chapters() {
		numbers[i] = strconv.Itoa(ch.Number)
	}
	return lab.Chapter{}, newProblem(status, "unknown_chapter", fmt.Sprintf("there is no chapter %q", shorten(name)),
		"the chapters are "+strings.Join(numbers, ", "))
}

// withOutbox is chapterOf for the calls that need an outbox.
func (s *server) withOutbox(c *gin.Context) (lab.Chapter, *problem) {
	ch, p := s.chapterOf(c, inputOf(c))
	if p == nil && !ch.Outbox {
		p = newProblem(http.StatusUnprocessableEntity, "no_outbox",
			fmt.Sprintf("chapter %d has no outbox: that is what it is about", ch.Number), "use chapter=3")
	}
	return ch, p
}

func variantOf(ch lab.Chapter, in input) (lab.Variant, *problem) {
	asked, given := in.str("variant")
	if v, ok := ch.Variant(asked); ok && (asked != "" || !given) {
		return v, nil
	}
	names := make([]string, len(ch.Variants))
	for i, v := range ch.Variants {
		names[i] = v.Name
	}
	return lab.Variant{}, newProblem(http.StatusBadRequest, "unknown_variant",
		fmt.Sprintf("chapter %d has no variant %q", ch.Number, shorten(asked)), "its variants are "+strings.Join(names, ", "))
}

// busOf returns the bus that a request names, else the default one. Whether it can
// be used is another question.
func (s *server) busOf(in input) (lab.BusInfo, *problem) {
	asked, given := in.str("bus")
	if !given {
		asked = s.live.DefaultBus()
	}
	info, err := s.live.Bus(asked)
	if err == nil {
		return info, nil
	}
	names := []string{}
	for _, b := range s.live.Buses() {
		names = append(names, b.Name)
	}
	return info, newProblem(http.StatusBadRequest, "unknown_bus", fmt.Sprintf("there is no bus %q", shorten(asked)),
		"the buses are "+strings.Join(names, ", "))
}

func busOff(b lab.BusInfo) *problem {
	return newProblem(http.StatusServiceUnavailable, "bus_off", b.Name+" is off: "+b.Note, b.Fix)
}

// chapterOff: this Postgres cannot do what the chapter needs; what it lacks and how to
// give it stands in the error.
func chapterOff(ch lab.Chapter, why error) *problem {
	fix := "do what it says and restart the playground; every other chapter works"
	if ch.Needs.En != "" {
		fix = "it needs " + ch.Needs.En + "; " + fix
	}
	p := newProblem(http.StatusServiceUnavailable, "chapter_off", why.Error(), fix)
	p.Texts = []lab.Text{ch.Needs}
	return p
}

func busStarting(b lab.BusInfo) *problem {
	p := newProblem(http.StatusServiceUnavailable, "bus_starting", b.Name+" is still starting: "+b.Note,
		"try again in a moment; GET /buses shows when it is ready")
	p.retryAfter = "1"
	return p
}
