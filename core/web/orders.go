package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/shop"
)

// placeLimit bounds the placing of one order, publish included.
const placeLimit = 10 * time.Second

// errSimulated is the business failure of ?fail=1, in the article's words.
var errSimulated = errors.New("simulated business failure before commit")

// request is an order with the way in which it shall be placed.
type request struct {
	order   shop.Order
	chapter lab.Chapter
	variant lab.Variant
	fail    bool
}

// placed is the answer to an order, committed or rolled back.
type placed struct {
	EventID string            `json:"event_id"`
	Status  string            `json:"status"`
	Error   string            `json:"error,omitempty"`
	TxMS    millis            `json:"tx_ms"`
	Note    string            `json:"note"`
	Bus     string            `json:"bus"`
	Chapter int               `json:"chapter"`
	Variant string            `json:"variant"`
	Next    []next            `json:"next"`
	Links   map[string]string `json:"links"`
}

func (s *server) placeOrder(c *gin.Context) {
	r, p := s.readOrder(c, inputOf(c))
	if p != nil {
		fail(c, p)
		return
	}
	var steps *checkpoint.Steps
	if r.fail {
		steps = checkpoint.Fail(checkpoint.BeforeCommit, r.order.EventID, errSimulated)
	}
	// Not the request's own context: a client that hangs up between the commit and
	// the publish would otherwise lose the event, which is chapter 1's lesson only
	// where a broker does it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), placeLimit)
	defer cancel()
	took, err := s.live.Place(ctx, r.chapter.Number, r.variant.Name, r.order, steps)
	switch {
	case wantsPage(c) && (err == nil || errors.Is(err, errSimulated)):
		seeOther(c, "/audit/event/"+r.order.EventID+"?chapter="+itoa(r.chapter.Number))
	case err == nil:
		reply(c, http.StatusCreated, committed(c, r, took))
	case errors.Is(err, errSimulated):
		reply(c, http.StatusUnprocessableEntity, rolledBack(c, r, took))
	default:
		fail(c, s.notPlaced(c, r, err))
	}
}

func answer(c *gin.Context, r request, took time.Duration) *placed {
	path := "/audit/event/" + r.order.EventID
	chapter := strconv.Itoa(r.chapter.Number)
	return &placed{
		EventID: r.order.EventID, Bus: r.order.Bus, Chapter: r.chapter.Number, Variant: r.variant.Name,
		TxMS: millis(took.Seconds() * 1000),
		Next: []next{{"what became of it", curl(c, http.MethodGet, path, "chapter", chapter)}},
		Links: map[string]string{
			"page":  base(c) + "/chapters/" + chapter,
			"audit": base(c) + path,
		},
	}
}

func committed(c *gin.Context, r request, took time.Duration) *placed {
	a := answer(c, r, took)
	a.Status = "committed"
	a.Note = "the order is committed; no row says whether its event was published: ask the audit"
	if r.chapter.InDoubtAfter > 0 {
		a.Note = "prepared, published and acknowledged by the bus, then committed"
	}
	if r.chapter.Outbox {
		a.Note = "order and outbox row are committed together; the worker publishes at its next poll, unless it is paused"
		if r.chapter.Log {
			a.Note = "the order is committed, and with it its event stands in the log; the relay reads it there, unless it is paused"
		}
		if r.chapter.Listens {
			a.Note = "order and outbox row are committed together; the commit has called the worker, which publishes now, unless it is paused"
		}
	}
	a.Next = append(a.Next, next{"let one fail before COMMIT", curl(c, http.MethodPost, "/demo/place-order",
		"user_id", "u1", "items", "A,B", "fail", "1", "chapter", strconv.Itoa(a.Chapter), "bus", a.Bus)})
	return a
}

func rolledBack(c *gin.Context, r request, took time.Duration) *placed {
	a := answer(c, r, took)
	a.Status, a.Error = "rolled_back", errSimulated.Error()
	a.Note = "the order is rolled back; an event that had left before cannot be called back: the audit shows it if there was one"
	if r.chapter.InDoubtAfter > 0 {
		a.Note = "the order is rolled back before it was prepared: nothing was sent"
	}
	if r.chapter.Outbox {
		a.Note = "order and outbox row are both rolled back: no table has a row of this event_id, and nothing was sent"
	}
	return a
}

// WriteText writes the answer as aligned text.
func (a *placed) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "event_id\t%s\nstatus\t%s\n", a.EventID, a.Status)
	if a.Error != "" {
		fmt.Fprintf(w, "error\t%s\n", a.Error)
	}
	fmt.Fprintf(w, "tx_ms\t%.2f\nbus\t%s\nchapter\t%d, %s\nnote\t%s\n", a.TxMS, a.Bus, a.Chapter, a.Variant, a.Note)
	writeNext(w, a.Next)
	return w.Flush()
}

func writeNext(w io.Writer, calls []next) {
	for _, n := range calls {
		fmt.Fprintf(w, "next\t%s\t%s\n", n.Label, n.Curl)
	}
}
