package web

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
)

// deadLetter is a letter whose payload can be shown: as text where it is text.
type deadLetter struct {
	inbox.Letter
	Payload  string `json:"payload"`
	Encoding string `json:"payload_encoding"` // utf-8 or base64
}

// ShortID is enough of the event's id to tell it from others in a list.
func (l deadLetter) ShortID() string { return fmt.Sprintf("%.8s", *l.EventID) }

func legibleLetter(l inbox.Letter) deadLetter {
	if utf8.Valid(l.Payload) {
		return deadLetter{l, string(l.Payload), "utf-8"}
	}
	return deadLetter{l, base64.StdEncoding.EncodeToString(l.Payload), "base64"}
}

// deadAnswer is one page of the messages that need a person.
type deadAnswer struct {
	Chapter int          `json:"chapter"`
	Letters []deadLetter `json:"dead_letters"`
	// NextAfter is the value of after for the next page; null on the last one.
	NextAfter *int64 `json:"next_after"`
	Next      []next `json:"next"`
}

func (s *server) deadLetters(c *gin.Context) {
	ch, p := s.withDeadLetters(c)
	if p != nil {
		fail(c, p)
		return
	}
	f, p := s.letterFilter(inputOf(c))
	if p != nil {
		fail(c, p)
		return
	}
	letters, err := inbox.Letters(c.Request.Context(), s.live.DB(ch.Number), f)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	a := answerDead(c, ch, f, letters)
	if wantsPage(c) {
		s.showDead(c, ch, f, a)
		return
	}
	reply(c, http.StatusOK, a)
}

// withDeadLetters returns the chapter that a request names, else the first one that
// has dead letters.
func (s *server) withDeadLetters(c *gin.Context) (lab.Chapter, *problem) {
	_, named := inputOf(c).str("chapter")
	for _, ch := range s.live.Chapters() {
		if !named && ch.DeadLetters {
			return ch, nil
		}
	}
	ch, p := s.chapterOf(c, inputOf(c))
	if p == nil && !ch.DeadLetters {
		p = newProblem(http.StatusUnprocessableEntity, "no_dead_letters",
			fmt.Sprintf("chapter %d has no dead letters: a message that fails comes again for ever", ch.Number), "use chapter=6")
	}
	return ch, p
}

func (s *server) letterFilter(in input) (f inbox.Filter, p *problem) {
	if _, given := in.str("bus"); given {
		b, p := s.busOf(in)
		if p != nil {
			return f, p
		}
		f.Bus = b.Name
	}
	f.Reason, _ = in.str("reason")
	f.After, _ = in["after"].(int64)
	switch f.Status, _ = in.str("status"); f.Status {
	case "", inbox.Dead, inbox.Requested, inbox.Replayed:
	default:
		return f, invalid(fieldError{"status", "must be dead, requested or replayed"})
	}
	limit, given := in["limit"].(int64)
	switch {
	case !given:
		limit = inbox.DefaultPage
	case limit < 1 || limit > inbox.MaxPage:
		return f, invalid(fieldError{"limit", fmt.Sprintf("must be 1 to %d", inbox.MaxPage)})
	}
	f.Limit = int(limit)
	return f, nil
}

func answerDead(c *gin.Context, ch lab.Chapter, f inbox.Filter, letters []inbox.Letter) *deadAnswer {
	a := &deadAnswer{Chapter: ch.Number, Letters: []deadLetter{}, Next: []next{}}
	chapter := strconv.Itoa(ch.Number)
	first := int64(0)
	for _, l := range letters {
		a.Letters = append(a.Letters, legibleLetter(l))
		if first == 0 && l.Status == inbox.Dead {
			first = l.ID
		}
	}
	if first > 0 {
		a.Next = append(a.Next, next{"handle the first one again", curl(c, http.MethodPost,
			fmt.Sprintf("/admin/dead-letters/%d/replay", first), "chapter", chapter)})
	}
	if len(letters) == f.Limit {
		last := letters[len(letters)-1].ID
		a.NextAfter = &last
		pairs := []string{"chapter", chapter, "after", strconv.FormatInt(last, 10), "limit", strconv.Itoa(f.Limit)}
		for _, p := range [][2]string{{"bus", f.Bus}, {"reason", f.Reason}, {"status", f.Status}} {
			if p[1] != "" {
				pairs = append(pairs, p[0], p[1])
			}
		}
		a.Next = append(a.Next, next{"the next page", curl(c, http.MethodGet, "/admin/dead-letters", pairs...)})
	}
	return a
}

// WriteText writes the letters as an aligned table. What came from outside is quoted,
// so that it cannot steer a terminal.
func (a *deadAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "id\tevent_id\tbus\tstatus\tattempts\treplays\treason\n")
	for _, l := range a.Letters {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%q\n", l.ID, orNone(l.EventID), l.Bus, l.Status, l.Attempts, l.Replays, l.Reason)
	}
	if len(a.Letters) == 0 {
		fmt.Fprintf(w, "no dead letters in chapter %d\n", a.Chapter)
	}
	writeNext(w, a.Next)
	return w.Flush()
}

func orNone(id *string) string {
	if id == nil {
		return "none"
	}
	return *id
}
