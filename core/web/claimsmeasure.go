package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// findings are the newest results of the claims' own measurements.
type findings struct {
	mu   sync.Mutex
	by   map[string]lab.Finding
	busy bool
}

func (f *findings) all() map[string]lab.Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[string]lab.Finding{}
	for id, one := range f.by {
		found[id] = one
	}
	return found
}

// begin takes a measurement in hand; false while there is another one: two at a time
// would measure each other.
func (f *findings) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy {
		return false
	}
	f.busy = true
	return true
}

func (f *findings) end(id string, found *lab.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
	if found != nil {
		f.by[id] = *found
	}
}

// measureClaim asks for the runs that a claim rests on, on one bus or on all; or makes
// its own small measurement at once.
func (s *server) measureClaim(c *gin.Context) {
	id := c.Param("claim")
	i := slices.IndexFunc(s.opt.Claims, func(c lab.Claim) bool { return c.ID == id })
	if i < 0 {
		fail(c, newProblem(http.StatusNotFound, "claim_unknown", fmt.Sprintf("there is no claim %q", shorten(id)), "GET /claims lists them"))
		return
	}
	claim := s.opt.Claims[i]
	busName, given := inputOf(c).str("bus")
	if _, p := s.busOf(inputOf(c)); p != nil {
		fail(c, p)
		return
	}
	switch {
	case claim.Measure != nil:
		s.measureNow(c, claim)
	case len(claim.Cells) == 0:
		p := newProblem(http.StatusUnprocessableEntity, "not_measurable", "nothing here measures this claim", claim.How.En)
		p.Texts = []lab.Text{claim.How}
		fail(c, p)
	default:
		if !given {
			busName = ""
		}
		s.askMany(c, s.specsOf(claim, busName), "/claims#"+claim.ID)
	}
}

// specsOf are the runs that a claim rests on, on every bus that is there ("") or on one.
func (s *server) specsOf(claim lab.Claim, busName string) (wanted []lab.Spec) {
	for _, b := range s.live.Buses() {
		if busName != "" && b.Name != busName {
			continue
		}
		specs := make([]lab.Spec, 0, len(claim.Cells))
		for _, cell := range claim.Cells {
			spec := lab.Spec{Chapter: cell.Chapter, Variant: cell.Variant, Bus: b.Name, Fault: cell.Fault}
			if spec.Check(s.live.Chapters()) == nil {
				specs = append(specs, spec)
			}
		}
		if len(specs) == len(claim.Cells) { // else the claim says nothing about this bus
			wanted = append(wanted, specs...)
		}
	}
	return wanted
}

// measureLimit bounds a claim's own measurement: one that takes longer belongs into
// a bench.
const measureLimit = time.Minute

// untilStopping bounds ctx by a time and by the end of the process, which waits too
// short for a long answer: whoever is cut off then cleans nothing up.
func (s *server) untilStopping(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-ctx.Done():
		case <-s.opt.Stopping:
			cancel()
		}
	}()
	return ctx, func() { cancel(); <-over }
}

func (s *server) measureNow(c *gin.Context, claim lab.Claim) {
	if !s.found.begin() {
		p := newProblem(http.StatusTooManyRequests, "being_measured",
			"a claim is being measured now; two measurements of time at once would disturb each other", "try again in a moment")
		p.retryAfter = "5"
		fail(c, p)
		return
	}
	ctx, cancel := s.untilStopping(c.Request.Context(), measureLimit)
	defer cancel()
	var found *lab.Finding
	defer func() { s.found.end(claim.ID, found) }()
	f, err := claim.Measure(ctx)
	if err != nil {
		fail(c, newProblem(http.StatusServiceUnavailable, "not_measured", "the measurement failed: "+err.Error(), "see that PostgreSQL and the bus are there: GET /readyz"))
		return
	}
	found = &f
	if wantsPage(c) {
		back(c, "/claims#"+claim.ID)
		return
	}
	reply(c, http.StatusOK, &f)
}
