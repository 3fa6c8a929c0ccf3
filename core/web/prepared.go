package web

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/prepared"
)

// preparedAnswer is what waits in a chapter for a second phase.
type preparedAnswer struct {
	Chapter  int             `json:"chapter"`
	Prepared []preparedOrder `json:"prepared"`
	Next     []next          `json:"next"`
	after    time.Duration   // from when on they are in doubt
}

// preparedOrder is in doubt when no living coordinator can be about to end it.
type preparedOrder struct {
	prepared.Transaction
	InDoubt bool `json:"in_doubt"`
}

func (s *server) preparedOrders(c *gin.Context) {
	ch, p := s.withPrepared(c)
	if p != nil {
		fail(c, p)
		return
	}
	found, err := prepared.List(c.Request.Context(), s.live.DB(ch.Number), ch.Schema())
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	a := &preparedAnswer{Chapter: ch.Number, Prepared: []preparedOrder{}, Next: []next{}, after: ch.InDoubtAfter}
	for _, t := range found {
		_, foreign := parseEventID(t.EventID)
		o := preparedOrder{t, foreign == nil && inDoubt(ch, t)}
		if o.InDoubt && len(a.Next) == 0 {
			a.Next = append([]next{{"was it handled?", curl(c, http.MethodGet, "/audit/event/"+t.EventID, "chapter", strconv.Itoa(ch.Number))}},
				endings(c, ch.Number, t.EventID)...)
		}
		a.Prepared = append(a.Prepared, o)
	}
	reply(c, http.StatusOK, a)
}

func inDoubt(ch lab.Chapter, t prepared.Transaction) bool {
	return t.AgeMS > ch.InDoubtAfter.Milliseconds()
}

// withPrepared returns the chapter that a request names, else the first one whose
// orders are prepared transactions.
func (s *server) withPrepared(c *gin.Context) (lab.Chapter, *problem) {
	_, named := inputOf(c).str("chapter")
	for _, ch := range s.live.Chapters() {
		if !named && ch.InDoubtAfter > 0 {
			return ch, nil
		}
	}
	ch, p := s.chapterOf(c, inputOf(c))
	if p == nil && ch.InDoubtAfter == 0 {
		p = newProblem(http.StatusUnprocessableEntity, "no_prepared",
			fmt.Sprintf("chapter %d prepares no transactions: one COMMIT decides", ch.Number), "use chapter=9")
	}
	return ch, p
}

// WriteText writes the transactions as an aligned table.
func (a *preparedAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "event_id\tprepared\tage\twaiting\tbehind\tstate\n")
	for _, t := range a.Prepared {
		state := "in doubt"
		if !t.InDoubt {
			state = fmt.Sprintf("under way, in doubt after %v", a.after)
		}
		fmt.Fprintf(w, "%q\t%s\t%v\t%d\t%d\t%s\n", t.EventID, t.Since.Format("2006-01-02 15:04:05.000"),
			(time.Duration(t.AgeMS) * time.Millisecond).Round(time.Second), t.Waiting, t.Behind, state)
	}
	if len(a.Prepared) == 0 {
		fmt.Fprintf(w, "nothing is prepared in chapter %d\n", a.Chapter)
	}
	writeNext(w, a.Next)
	return w.Flush()
}
