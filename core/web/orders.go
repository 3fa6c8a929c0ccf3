package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/shop"
)

// The limits of an order.
const (
	maxUser  = 200 // characters
	maxItems = 100
	maxItem  = 200 // characters
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
	case err == nil:
		reply(c, http.StatusCreated, committed(c, r, took))
	case errors.Is(err, errSimulated):
		reply(c, http.StatusUnprocessableEntity, rolledBack(c, r, took))
	default:
		fail(c, s.notPlaced(c, r, err))
	}
}

// readOrder judges everything about an order that can be judged beforehand, and
// names every field that is wrong.
func (s *server) readOrder(c *gin.Context, in input) (r request, p *problem) {
	if r.chapter, p = s.chapterOf(c, in); p != nil {
		return r, p
	}
	if r.variant, p = variantOf(r.chapter, in); p != nil {
		return r, p
	}
	b, p := s.busOf(in)
	if p != nil {
		return r, p
	}
	r.fail, _ = in["fail"].(bool)
	r.order.Bus = b.Name
	var errs [3]error
	r.order.UserID, errs[0] = userID(in)
	r.order.Items, errs[1] = items(in)
	r.order.EventID, errs[2] = eventID(in)
	var wrong []fieldError
	for i, name := range []string{"user_id", "items", "event_id"} {
		if errs[i] != nil {
			wrong = append(wrong, fieldError{name, errs[i].Error()})
		}
	}
	if len(wrong) > 0 {
		return r, invalid(wrong...)
	}
	return r, nil
}

func userID(in input) (string, error) {
	user, given := in.str("user_id")
	switch n := utf8.RuneCountInString(user); {
	case !given:
		return "", errors.New("is missing")
	case n < 1 || n > maxUser:
		return "", fmt.Errorf("must have 1 to %d characters, it has %d", maxUser, n)
	}
	return user, nil
}

func items(in input) ([]string, error) {
	list, given := in["items"].([]string)
	switch {
	case !given:
		return nil, errors.New("is missing")
	case len(list) < 1 || len(list) > maxItems:
		return nil, fmt.Errorf("must be 1 to %d items, there are %d", maxItems, len(list))
	}
	for i, item := range list {
		if n := utf8.RuneCountInString(item); n < 1 || n > maxItem {
			return nil, fmt.Errorf("item %d must have 1 to %d characters, it has %d", i+1, maxItem, n)
		}
	}
	return list, nil
}

// eventID takes the client's own id, so that trying again cannot order twice.
func eventID(in input) (string, error) {
	id, given := in.str("event_id")
	if !given {
		return uuid.NewString(), nil
	}
	return parseEventID(id)
}

// parseEventID accepts the usual form only; uuid.Parse knows four.
func parseEventID(id string) (string, error) {
	const usualLength = 36
	if len(id) != usualLength || uuid.Validate(id) != nil {
		return "", errors.New("must be a UUID such as 0a4f9c1e-52d3-4b6e-9a3f-1c2d3e4f5a6b")
	}
	return strings.ToLower(id), nil
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
	if r.chapter.Outbox {
		a.Note = "order and outbox row are committed together; the worker publishes at its next poll, unless it is paused"
	}
	a.Next = append(a.Next, next{"let one fail before COMMIT", curl(c, http.MethodPost, "/demo/place-order",
		"user_id", "u1", "items", "A,B", "fail", "1", "chapter", strconv.Itoa(a.Chapter), "bus", a.Bus)})
	return a
}

func rolledBack(c *gin.Context, r request, took time.Duration) *placed {
	a := answer(c, r, took)
	a.Status, a.Error = "rolled_back", errSimulated.Error()
	a.Note = "the order is rolled back; an event that had left before cannot be called back: the audit shows it if there was one"
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
