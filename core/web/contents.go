package web

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// contentsAnswer is the table of contents.
type contentsAnswer struct {
	Chapters []chapterAnswer `json:"chapters"`
	Next     []next          `json:"next"`
}

// chapterAnswer is one chapter.
type chapterAnswer struct {
	Number   int      `json:"number"`
	Slug     string   `json:"slug"`
	Title    lab.Text `json:"title"`
	Question lab.Text `json:"question"`
	Topic    string   `json:"topic"`
	Outbox   bool     `json:"outbox"`
	// Needs is what the chapter asks of the Postgres; empty where any will do.
	Needs lab.Text `json:"needs"`
	// Off says what is missing and how to give it; empty where nothing is.
	Off      string            `json:"off"`
	Variants []variantAnswer   `json:"variants"`
	Next     []next            `json:"next"`
	Links    map[string]string `json:"links"`
}

type variantAnswer struct {
	Name     string           `json:"name"`
	Note     lab.Text         `json:"note"`
	Declared []declaredAnswer `json:"declared"`
}

// declaredAnswer is what is promised under one fault, bus by bus. It is a promise:
// what a run measures is another thing.
type declaredAnswer struct {
	Fault string            `json:"fault"`
	Buses map[string]string `json:"buses"`
}

func (s *server) chapters(c *gin.Context) {
	if wantsPage(c) {
		s.contentsPage(c)
		return
	}
	a := &contentsAnswer{Chapters: []chapterAnswer{}, Next: []next{
		{"the first one", curl(c, http.MethodGet, "/chapters/1")}, {"the buses", curl(c, http.MethodGet, "/buses")}}}
	for _, ch := range s.live.Chapters() {
		a.Chapters = append(a.Chapters, *s.answerChapter(c, ch))
	}
	reply(c, http.StatusOK, a)
}

func (s *server) chapter(c *gin.Context) {
	ch, p := s.chapterNamed(c.Param("n"), http.StatusNotFound)
	if p != nil {
		fail(c, p)
		return
	}
	if wantsPage(c) {
		s.chapterPage(c, ch, inputOf(c), false)
		return
	}
	reply(c, http.StatusOK, s.answerChapter(c, ch))
}

func (s *server) answerChapter(c *gin.Context, ch lab.Chapter) *chapterAnswer {
	path := "/chapters/" + strconv.Itoa(ch.Number)
	a := &chapterAnswer{
		Number: ch.Number, Slug: ch.Slug, Title: ch.Title, Question: ch.Question, Topic: ch.Topic, Outbox: ch.Outbox,
		Needs: ch.Needs, Variants: []variantAnswer{},
		Next:  []next{{"place an order its way", curl(c, http.MethodPost, path+"/orders", "user_id", "u1", "items", "A,B")}},
		Links: map[string]string{"page": base(c) + path},
	}
	if off := s.live.ChapterOff(ch.Number); off != nil {
		a.Off = off.Error()
	}
	for _, v := range ch.Variants {
		view := variantAnswer{Name: v.Name, Note: v.Note, Declared: []declaredAnswer{}}
		for _, d := range v.Declared {
			view.Declared = append(view.Declared, s.answerDeclared(d))
		}
		a.Variants = append(a.Variants, view)
	}
	return a
}

func (s *server) answerDeclared(d lab.Declaration) declaredAnswer {
	a := declaredAnswer{Fault: d.Fault, Buses: map[string]string{}}
	for _, b := range s.live.Buses() {
		a.Buses[b.Name] = d.On(b.Name)
	}
	return a
}

// WriteText writes the contents as an aligned list.
func (a *contentsAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, ch := range a.Chapters {
		fmt.Fprintf(w, "%d\t%s\t%s\n\t%s\t%s\n", ch.Number, ch.Title.En, ch.Title.ZhTW, ch.Question.En, ch.Question.ZhTW)
		ch.writeOff(w)
	}
	writeNext(w, a.Next)
	return w.Flush()
}

func (a *chapterAnswer) writeOff(w io.Writer) {
	if a.Off != "" {
		fmt.Fprintf(w, "\toff\t%s\n", a.Off)
	}
}

// WriteText writes the chapter as text.
func (a *chapterAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "chapter %d\t%s\t%s\n\t%s\t%s\n", a.Number, a.Title.En, a.Title.ZhTW, a.Question.En, a.Question.ZhTW)
	a.writeOff(w)
	for _, v := range a.Variants {
		fmt.Fprintf(w, "variant\t%s\t%s\n", v.Name, v.Note.En)
	}
	writeNext(w, a.Next)
	return w.Flush()
}
