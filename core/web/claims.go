package web

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// claimsAnswer lists the article's claims, each as it stands here and now.
type claimsAnswer struct {
	Claims []claimAnswer `json:"claims"`
	AsOf   time.Time     `json:"as_of"`
	Next   []next        `json:"next"`
}

// claimAnswer is one of them.
type claimAnswer struct {
	ID       string            `json:"id"`
	Section  string            `json:"section"`
	Text     lab.Text          `json:"text"`
	Standing lab.Standing      `json:"standing"`
	Because  *lab.Text         `json:"because,omitempty"`
	Cells    []lab.Cell        `json:"cells"`
	Buses    []lab.BusEvidence `json:"buses"`
	Finding  *lab.Finding      `json:"finding,omitempty"`
	How      *lab.Text         `json:"how,omitempty"`
	// Measurable says whether POST /claims/{id} can do something about it.
	Measurable bool   `json:"measurable"`
	Next       []next `json:"next"`
}

// Sign is the form of its standing.
func (a claimAnswer) Sign() string {
	return map[lab.Standing]string{lab.Confirmed: "✓", lab.Refined: "◐", lab.Refuted: "✗", lab.Unmeasured: "?"}[a.Standing]
}

// Open lists the buses on which the claim is not measured here.
func (a claimAnswer) Open() (names []string) {
	for _, b := range a.Buses {
		if b.Holds == "" {
			names = append(names, b.Bus)
		}
	}
	return names
}

// Measured counts the buses on which the claim has been judged here.
func (a claimAnswer) Measured() int { return len(a.Buses) - len(a.Open()) }

// claims answers with all of them.
func (s *server) claims(c *gin.Context) {
	cells, err := s.allCells(c)
	if err != nil {
		fail(c, s.failed(c, err))
		return
	}
	a := &claimsAnswer{Claims: []claimAnswer{}, AsOf: s.opt.Now().UTC(), Next: []next{}}
	for _, j := range lab.JudgeClaims(s.opt.Claims, cells, s.found.all()) {
		a.Claims = append(a.Claims, answerClaim(c, j))
	}
	if i := slices.IndexFunc(a.Claims, func(c claimAnswer) bool { return c.Measurable && c.Standing == lab.Unmeasured }); i >= 0 {
		a.Next = append(a.Next, a.Claims[i].Next...)
	}
	if wantsPage(c) {
		s.showClaims(c, a)
		return
	}
	reply(c, http.StatusOK, a)
}

func answerClaim(c *gin.Context, j lab.JudgedClaim) claimAnswer {
	a := claimAnswer{ID: j.ID, Section: j.Section, Text: j.Text, Standing: j.Standing, Cells: j.Cells, Buses: j.Buses,
		Finding: j.Finding, Measurable: len(j.Cells) > 0 || j.Measure != nil, Next: []next{}}
	if a.Cells == nil {
		a.Cells = []lab.Cell{}
	}
	if a.Buses == nil {
		a.Buses = []lab.BusEvidence{}
	}
	if why, ok := j.Because[j.Standing]; ok {
		a.Because = &why
	}
	if j.How.En != "" {
		a.How = &j.How
	}
	if a.Measurable {
		a.Next = append(a.Next, next{"measure it on every bus", curl(c, http.MethodPost, "/claims/"+j.ID)})
	}
	return a
}

// WriteText writes a line a claim.
func (a *claimsAnswer) WriteText(out io.Writer) error {
	w := newTable(out)
	for _, one := range a.Claims {
		fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\n", one.Sign(), one.Standing, one.Section, one.ID, one.Text.En)
	}
	writeNext(w, a.Next)
	return w.Flush()
}

// claimsPage is the list for a browser.
type claimsPage struct {
	claimsAnswer
	Counts  []standingCount
	Waiting int
	Curl    string
}

// standingCount is how many claims stand so.
type standingCount struct {
	Standing lab.Standing
	Sign     string
	N        int
}

func (s *server) showClaims(c *gin.Context, a *claimsAnswer) {
	d := &claimsPage{claimsAnswer: *a, Curl: curl(c, http.MethodGet, "/claims")}
	for _, st := range []lab.Standing{lab.Confirmed, lab.Refined, lab.Refuted, lab.Unmeasured} {
		n := standingCount{Standing: st, Sign: claimAnswer{Standing: st}.Sign()}
		for _, one := range a.Claims {
			if one.Standing == st {
				n.N++
			}
		}
		d.Counts = append(d.Counts, n)
	}
	waiting := s.beingMeasured()
	for _, one := range a.Claims {
		for key := range waiting {
			for _, cell := range one.Cells {
				if strings.HasPrefix(key, fmt.Sprintf("%d.%s.", cell.Chapter, cell.Variant)) && strings.HasSuffix(key, "."+cell.Fault) {
					d.Waiting++
				}
			}
		}
	}
	v := page.View{Title: s.say(c, "claims.title"), Nav: "/claims", Data: d}
	if d.Waiting > 0 {
		v.Refresh = 5
	}
	s.show(c, http.StatusOK, "claims", v)
}
