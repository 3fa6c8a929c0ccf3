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
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
)

// notPlaced says why an order was refused. In all cases but commit_unknown nothing
// of it was kept in the database.
func (s *server) notPlaced(c *gin.Context, r request, err error) *problem {
	info, _ := s.live.Bus(r.order.Bus)
	var p *problem
	switch {
	case errors.Is(err, lab.ErrChapterOff):
		p = chapterOff(r.chapter, err)
	case errors.Is(err, lab.ErrBusOff):
		p = busOff(info)
	case errors.Is(err, lab.ErrBusStarting):
		p = busStarting(info)
	case errors.Is(err, prepared.ErrInDoubt): // whatever else it is
		p = leftInDoubt(c, r)
	case errors.Is(err, shop.ErrDuplicate), isUniqueViolation(err):
		p = newProblem(http.StatusConflict, "duplicate_event_id",
			"an order with this event_id exists; nothing was changed", "send a new event_id, or none")
	case isLocked(err):
		p = rowLocked(c, r)
	case isState(err, "53200") && r.chapter.InDoubtAfter > 0:
		p = newProblem(http.StatusServiceUnavailable, "too_many_prepared",
			"PostgreSQL lets no more transactions be prepared at once; nothing was kept",
			"raise max_prepared_transactions, or end what is in doubt: GET /admin/prepared")
		p.retryAfter = "1"
	case isState(err, "42710") && r.chapter.InDoubtAfter > 0:
		p = newProblem(http.StatusConflict, "name_in_use",
			"a transaction with this order's name is prepared already, perhaps in another database of this PostgreSQL; nothing was kept",
			"send a new event_id, or none; or end that transaction where it was begun: pg_prepared_xacts names its database")
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
	if r.chapter.Outbox || r.chapter.InDoubtAfter > 0 {
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
	return pg.Unavailable(err) && (ch.Outbox || ch.InDoubtAfter > 0 || certain)
}

func isUniqueViolation(err error) bool { return isState(err, "23505") }

// isLocked: lock_timeout was over before a row was free.
func isLocked(err error) bool { return isState(err, "55P03") }

// isState tells whether PostgreSQL said so.
func isState(err error, code string) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == code
}

// leftInDoubt: the order is neither kept nor refused, and waits for a person.
func leftInDoubt(c *gin.Context, r request) *problem {
	p := newProblem(http.StatusServiceUnavailable, "in_doubt",
		"an answer was lost between the two phases: the order may be prepared, and waits then with its locks until a person decides",
		"do not place it again; ask the audit whether its event was handled, then commit or roll back")
	if r.variant.Recovers != nil {
		p.Detail = "an answer was lost between the two phases: an order whose decision is written down is finished without you, any other may wait with its locks until a person decides"
		p.Fix = "wait some seconds, and ask the audit what has become of it; commit or roll back what is in doubt even then"
	}
	chapter := strconv.Itoa(r.chapter.Number)
	p.Next = append([]next{{"was it handled?", curl(c, http.MethodGet, "/audit/event/"+r.order.EventID, "chapter", chapter)}},
		endings(c, r.chapter.Number, r.order.EventID)...)
	return p
}

// rowLocked: somebody else's transaction keeps a row that this order needs.
func rowLocked(c *gin.Context, r request) *problem {
	p := newProblem(http.StatusServiceUnavailable, "row_locked",
		"another transaction has held a row that this order needs for longer than lock_timeout; nothing was kept", "try again")
	p.retryAfter = "1"
	if r.chapter.InDoubtAfter > 0 {
		p.Fix = "try again; if it lasts, an order in doubt holds the row until somebody ends it: GET /admin/prepared"
		p.Next = []next{{"what is in doubt", curl(c, http.MethodGet, "/admin/prepared", "chapter", strconv.Itoa(r.chapter.Number))}}
	}
	return p
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
