package web

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// notPlaced says why an order was refused. In all cases but commit_unknown nothing
// of it was kept in the database.
func (s *server) notPlaced(c *gin.Context, r request, err error) *problem {
	info, _ := s.live.Bus(r.order.Bus)
	var p *problem
	switch {
	case errors.Is(err, lab.ErrBusOff):
		p = busOff(info)
	case errors.Is(err, lab.ErrBusStarting):
		p = busStarting(info)
	case errors.Is(err, shop.ErrDuplicate), isUniqueViolation(err):
		p = newProblem(http.StatusConflict, "duplicate_event_id",
			"an order with this event_id exists; nothing was changed", "send a new event_id, or none")
	case errors.Is(err, pg.ErrCommitUnknown):
		p = newProblem(http.StatusServiceUnavailable, "commit_unknown",
			"COMMIT was sent and its answer was lost: the order may exist",
			"ask the audit before you try again, and try again with the same event_id")
		p.Next = []next{{"did it happen?", curl(c, http.MethodGet, "/audit/event/"+r.order.EventID,
			"chapter", strconv.Itoa(r.chapter.Number))}}
	case errors.Is(err, bus.ErrUnavailable):
		p = newProblem(http.StatusServiceUnavailable, "bus_unavailable",
			r.order.Bus+" cannot be reached, and this way of ordering needs it first; nothing was kept",
			"try again when the bus is back; from chapter 3 on an order does not wait for it")
	case errors.Is(err, bus.ErrRejected):
		p = newProblem(http.StatusServiceUnavailable, "bus_rejected",
			r.order.Bus+" refused the event, so the order was refused; nothing was kept",
			"see the log of the playground for what the bus said")
	case isDatabase(err, r.chapter):
		p = databaseUnavailable()
	default:
		s.logFailure(c, err)
		p = s.notTold(r)
	}
	p.EventID = r.order.EventID
	return p
}

// notTold is for errors of no known kind. Where an order publishes before it
// commits, that is a publish without a clear answer.
func (s *server) notTold(r request) *problem {
	if r.chapter.Outbox {
		return internal()
	}
	return newProblem(http.StatusServiceUnavailable, "order_refused",
		"the order was refused after its event may have been sent; no order was kept",
		"the audit of this event_id shows whether the event went out all the same")
}

// isDatabase tells the database's failures from a bus's. A connection that broke
// could belong to either where the order talks to both; there only what Postgres
// itself said, or its refusal to be dialled, is certain.
func isDatabase(err error, ch lab.Chapter) bool {
	var said *pgconn.PgError
	var dial *pgconn.ConnectError
	certain := errors.As(err, &said) || errors.As(err, &dial)
	return pg.Unavailable(err) && (ch.Outbox || certain)
}

func isUniqueViolation(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == "23505"
}

func databaseUnavailable() *problem {
	p := newProblem(http.StatusServiceUnavailable, "database_unavailable",
		"PostgreSQL cannot be reached or broke off; nothing was kept", "try again; GET /readyz says when it is back")
	p.retryAfter = "1"
	return p
}

// failed turns an error of a query into a problem.
func (s *server) failed(c *gin.Context, err error) *problem {
	if pg.Unavailable(err) {
		return databaseUnavailable()
	}
	s.logFailure(c, err)
	return internal()
}

func (s *server) logFailure(c *gin.Context, err error) {
	s.opt.Log.Error("request failed", "method", c.Request.Method, "path", c.Request.URL.Path, "error", err)
}
