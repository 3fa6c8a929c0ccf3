package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
)

// failedAnswer is one page of the rows that need a person.
type failedAnswer struct {
	Chapter int          `json:"chapter"`
	Failed  []outbox.Row `json:"failed"`
	// NextAfter is the value of after for the next page; null on the last one.
	NextAfter *int64 `json:"next_after"`
	Next      []next `json:"next"`
}

func (s *server) failedRows(c *gin.Context) {
	ch, p := s.withOutbox(c)
	if p != nil {
		fail(c, p)
		return
	}
	f, p := s.filter(inputOf(c))
	if p != nil {
		fail(c, p)
		return
	}
	rows, err := outbox.Failed(c.Request.Context(), s.live.DB(ch.Number), f)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	a := answerFailed(c, ch, f, rows)
	if wantsPage(c) {
		s.showFailed(c, ch, f, a)
		return
	}
	reply(c, http.StatusOK, a)
}

func (s *server) filter(in input) (f outbox.Filter, p *problem) {
	if _, given := in.str("bus"); given {
		b, p := s.busOf(in)
		if p != nil {
			return f, p
		}
		f.Bus = b.Name
	}
	f.Error, _ = in.str("error")
	f.After, _ = in["after"].(int64)
	limit, given := in["limit"].(int64)
	switch {
	case !given:
		limit = outbox.DefaultPage
	case limit < 1 || limit > outbox.MaxPage:
		return f, invalid(fieldError{"limit", fmt.Sprintf("must be 1 to %d", outbox.MaxPage)})
	}
	f.Limit = int(limit)
	return f, nil
}

func answerFailed(c *gin.Context, ch lab.Chapter, f outbox.Filter, rows []outbox.Row) *failedAnswer {
	a := &failedAnswer{Chapter: ch.Number, Failed: rows, Next: []next{}}
	chapter := strconv.Itoa(ch.Number)
	if len(rows) > 0 {
		a.Next = append(a.Next, next{"make the first one pending again", curl(c, http.MethodPost,
			fmt.Sprintf("/admin/outbox/%d/retry", rows[0].ID), "chapter", chapter)})
	}
	if len(rows) == f.Limit {
		last := rows[len(rows)-1].ID
		a.NextAfter = &last
		pairs := []string{"chapter", chapter, "after", strconv.FormatInt(last, 10), "limit", strconv.Itoa(f.Limit)}
		if f.Bus != "" {
			pairs = append(pairs, "bus", f.Bus)
		}
		if f.Error != "" {
			pairs = append(pairs, "error", f.Error)
		}
		a.Next = append(a.Next, next{"the next page", curl(c, http.MethodGet, "/admin/outbox/failed", pairs...)})
	}
	return a
}

// WriteText writes the rows as an aligned table. Errors are quoted, so that what a
// broker said cannot steer a terminal.
func (a *failedAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "id\tevent_id\tbus\tattempts\tlast error\n")
	for _, r := range a.Failed {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%q\n", r.ID, r.EventID, r.Bus, r.Attempts, r.LastError)
	}
	if len(a.Failed) == 0 {
		fmt.Fprintf(w, "no failed rows in chapter %d\n", a.Chapter)
	}
	writeNext(w, a.Next)
	return w.Flush()
}

// retryAnswer is the row that is pending again.
type retryAnswer struct {
	outbox.Row
	Chapter int    `json:"chapter"`
	Next    []next `json:"next"`
}

func (s *server) retryRow(c *gin.Context) {
	ch, p := s.withOutbox(c)
	if p != nil {
		fail(c, p)
		return
	}
	id, err := rowID(c)
	if err != nil {
		fail(c, unknownRow(ch, c.Param("id")))
		return
	}
	by, p := whoAsks(inputOf(c))
	if p != nil {
		fail(c, p)
		return
	}
	row, err := outbox.RetryAs(c.Request.Context(), s.live.DB(ch.Number), id, by)
	switch {
	case errors.Is(err, outbox.ErrUnknown):
		fail(c, unknownRow(ch, c.Param("id")))
	case errors.Is(err, outbox.ErrNotFailed):
		fail(c, newProblem(http.StatusConflict, "not_failed",
			fmt.Sprintf("row %d has not failed, or somebody retried it already", id), "GET /admin/outbox/failed lists those that have"))
	case err != nil:
		fail(c, s.failed(c, err))
	case wantsPage(c):
		confirm(c, confirmed{Chapter: ch.Number, EventID: row.EventID})
		back(c, "/chapters/"+itoa(ch.Number))
	default:
		reply(c, http.StatusAccepted, &retryAnswer{row, ch.Number, []next{{"what becomes of it",
			curl(c, http.MethodGet, "/audit/event/"+row.EventID, "chapter", strconv.Itoa(ch.Number))}}})
	}
}

func unknownRow(ch lab.Chapter, id string) *problem {
	return newProblem(http.StatusNotFound, "row_unknown",
		fmt.Sprintf("the outbox of chapter %d has no row %q", ch.Number, shorten(id)), "GET /admin/outbox/failed lists the failed rows")
}

// WriteText writes the row as text.
func (a *retryAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "row\t%d\nevent_id\t%s\nstatus\t%s\nattempts\t%d\n", a.ID, a.EventID, a.Status, a.Attempts)
	writeNext(w, a.Next)
	return w.Flush()
}
