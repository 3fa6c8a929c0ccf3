package lab

import (
	"context"
	"slices"
	"time"

	"outboxplayground/core/audit"
)

// Claim is a sentence that can be tried: what it rests on, and how the measured
// results are read. What is true of it is never written down, but judged anew.
type Claim struct {
	ID      string // a word for links
	Section string // of the article, "§3"
	Text    Text
	// Cells are the experiments that it rests on, all on one bus at a time.
	Cells []Cell
	// Judge reads one bus's newest reports, one for each of Cells.
	Judge func(r []Report) Holds
	// Because explains a judgement, by the kind of the judgement; a missing one needs
	// no explanation.
	Because map[Standing]Text
	// Measure is a small measurement, for a claim that rests on no run. Nil: it does.
	Measure func(ctx context.Context) (Finding, error)
	// How says what Measure does, or how to measure what nothing here measures.
	How Text
}

// Cell is an experiment without its bus.
type Cell struct {
	Chapter int    `json:"chapter"`
	Variant string `json:"variant"`
	Fault   string `json:"fault"`
}

// Holds says whether a claim is true of what was measured.
type Holds string

// The answers.
const (
	Yes    Holds = "yes"
	Partly Holds = "partly" // true with a condition that the claim does not name
	No     Holds = "no"
)

// Finding is what a small measurement has found.
type Finding struct {
	Holds Holds     `json:"holds"`
	Said  Text      `json:"said"` // with figures
	AsOf  time.Time `json:"as_of"`
}

// Standing is how a claim stands here and now.
type Standing string

// The standings.
const (
	Confirmed  Standing = "confirmed"
	Refined    Standing = "refined" // true under a condition, or not on every bus
	Refuted    Standing = "refuted"
	Unmeasured Standing = "unmeasured"
)

// BusEvidence is what one bus says about a claim.
type BusEvidence struct {
	Bus string `json:"bus"`
	// Holds is "" while a cell is not measured, or is unknown.
	Holds Holds `json:"holds,omitempty"`
	// Runs are the newest runs of the cells; "" where there is none.
	Runs []string `json:"runs"`
	// Server is the broker's mode and version in these runs.
	Server string    `json:"server,omitempty"`
	AsOf   time.Time `json:"as_of,omitzero"` // of the oldest of the runs
}

// JudgedClaim is a claim with what was measured here.
type JudgedClaim struct {
	Claim
	Standing Standing
	Buses    []BusEvidence // those on which all its cells exist
	Finding  *Finding
}

// JudgeClaims reads the claims against the cells of a guarantees table. finding is the
// newest result of the small measurements, by the claim's id.
func JudgeClaims(claims []Claim, table []Guarantee, finding map[string]Finding) []JudgedClaim {
	type key struct {
		Cell
		bus string
	}
	cells, buses := map[key]Guarantee{}, []string(nil)
	for _, g := range table {
		cells[key{Cell{g.Chapter, g.Variant, g.Fault}, g.Bus}] = g
		if !slices.Contains(buses, g.Bus) {
			buses = append(buses, g.Bus)
		}
	}
	judged := make([]JudgedClaim, len(claims))
	for i, c := range claims {
		j := JudgedClaim{Claim: c}
		if f, ok := finding[c.ID]; ok {
			j.Finding = &f
		}
		for _, b := range buses {
			var found []Guarantee
			for _, cell := range c.Cells {
				if g, ok := cells[key{cell, b}]; ok && g.NotApplicable == "" {
					found = append(found, g)
				}
			}
			if len(c.Cells) > 0 && len(found) == len(c.Cells) {
				j.Buses = append(j.Buses, c.onBus(b, found))
			}
		}
		j.Standing = standing(j)
		judged[i] = j
	}
	return judged
}

// onBus judges what one bus has measured. A run that proves nothing is no evidence.
func (c Claim) onBus(busName string, found []Guarantee) BusEvidence {
	e := BusEvidence{Bus: busName}
	var reports []Report
	for _, g := range found {
		id := ""
		if r := g.Measured; r != nil {
			id, e.Server = r.ID, r.Mode+" "+r.Version
			if e.AsOf.IsZero() || r.AsOf.Before(e.AsOf) {
				e.AsOf = r.AsOf
			}
			if r.Valid != audit.Unknown {
				reports = append(reports, *r)
			}
		}
		e.Runs = append(e.Runs, id)
	}
	if len(reports) == len(c.Cells) {
		e.Holds = c.Judge(reports)
	}
	return e
}

// standing is confirmed where everything measured says yes, refuted where everything
// says no, and refined in between.
func standing(j JudgedClaim) Standing {
	var said []Holds
	for _, b := range j.Buses {
		if b.Holds != "" {
			said = append(said, b.Holds)
		}
	}
	if j.Finding != nil {
		said = append(said, j.Finding.Holds)
	}
	other := func(h Holds) func(Holds) bool { return func(s Holds) bool { return s != h } }
	switch {
	case len(said) == 0:
		return Unmeasured
	case !slices.ContainsFunc(said, other(Yes)):
		return Confirmed
	case !slices.ContainsFunc(said, other(No)):
		return Refuted
	}
	return Refined
}
