package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

func runParams() []param {
	return []param{chapterParam(), text("variant"), text("bus"), text("fault"), number("orders"), seedParam(),
		text("outage"), {"predict", single(parseNumber), prediction}, figureParam()}
}

// askRun puts a run into the queue.
func (s *server) askRun(c *gin.Context) {
	spec, p := s.specOf(c)
	if p != nil {
		fail(c, p)
		return
	}
	t, err := s.opt.Lab.Queue.Submit(spec)
	if err != nil {
		fail(c, s.noRun(c, spec, err))
		return
	}
	if follows(c) {
		noteProgress(c, spec.Chapter, ran)
	}
	if wantsPage(c) {
		seeOther(c, "/runs/"+t.ID)
		return
	}
	c.Header("Location", "/runs/"+t.ID)
	reply(c, http.StatusAccepted, answerTicket(c, t))
}

func (s *server) specOf(c *gin.Context) (lab.Spec, *problem) {
	in := inputOf(c)
	ch, p := s.chapterOf(c, in)
	if p != nil {
		return lab.Spec{}, p
	}
	v, p := variantOf(ch, in)
	if p != nil {
		return lab.Spec{}, p
	}
	b, p := s.busOf(in)
	if p != nil {
		return lab.Spec{}, p
	}
	if off := s.live.ChapterOff(ch.Number); off != nil {
		return lab.Spec{}, chapterOff(ch, off)
	}
	spec := lab.Spec{Chapter: ch.Number, Variant: v.Name, Bus: b.Name}
	spec.Fault, _ = in.str("fault")
	if orders, given := in["orders"].(int64); given {
		if orders < 1 || orders > lab.MaxOrders {
			return spec, invalid(fieldError{"orders", fmt.Sprintf("must be 1 to %d", lab.MaxOrders)})
		}
		spec.Orders = int(orders)
	}
	if seed, given := in["seed"].(uint64); given {
		spec.Seed = seed
	}
	if p := predict(&spec, in); p != nil {
		return spec, p
	}
	if spec.Outage, p = outageOf(in); p != nil {
		return spec, p
	}
	return spec, nil
}

func (s *server) noRun(c *gin.Context, spec lab.Spec, err error) *problem {
	b, _ := s.live.Bus(spec.Bus)
	switch {
	case errors.Is(err, lab.ErrQueueFull):
		p := newProblem(http.StatusTooManyRequests, "queue_full",
			fmt.Sprintf("%d runs are waiting, and no more may", lab.QueueLength), "try again when some are over; GET /runs shows them")
		p.retryAfter = "15"
		return p
	case errors.Is(err, lab.ErrNotApplicable):
		return newProblem(http.StatusUnprocessableEntity, "not_applicable", err.Error(), "GET /audit/guarantees shows which cells apply")
	case errors.Is(err, lab.ErrSpec):
		return newProblem(http.StatusUnprocessableEntity, "invalid_input", err.Error(), "GET /faults lists the faults, GET /chapters the variants")
	case errors.Is(err, lab.ErrBusOff):
		return busOff(b)
	case errors.Is(err, lab.ErrBusStarting):
		return busStarting(b)
	}
	return s.failed(c, err)
}
