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
	busy map[string]bool
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

// begin takes a measurement in hand; false while somebody else has it.
func (f *findings) begin(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[id] {
		return false
	}
	f.busy[id] = true
	return true
}

func (f *findings) end(id string, found *lab.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, id)
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
		fail(c, newProblem(http.StatusUnprocessableEntity, "not_measurable", "nothing here measures this claim", claim.How.En))
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

func (s *server) measureNow(c *gin.Context, claim lab.Claim) {
	if !s.found.begin(claim.ID) {
		p := newProblem(http.StatusTooManyRequests, "being_measured", "this claim is being measured now", "look at /claims in a moment")
		p.retryAfter = "2"
		fail(c, p)
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), measureLimit)
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
