package lab

import (
	"encoding/json"
	"fmt"
)

// next suggests the same fault one chapter further, or the way to repeat this run.
func (r *run) next() []Next {
	ask := func(chapter int, variant string) string {
		again := struct {
			Chapter int    `json:"chapter"`
			Variant string `json:"variant,omitempty"`
			Bus     string `json:"bus"`
			Fault   string `json:"fault"`
			Orders  int    `json:"orders"`
			Seed    uint64 `json:"seed,omitempty"`
			Outage  string `json:"outage,omitempty"`
		}{chapter, variant, r.spec.Bus, r.fault.Name, r.spec.Orders, r.spec.Seed, ""}
		if r.spec.Outage > 0 {
			again.Outage = r.spec.Outage.String()
		}
		body, _ := json.Marshal(again) // of plain fields
		return "curl -X POST http://127.0.0.1:8000/runs -H 'Content-Type: application/json' -d '" + string(body) + "'"
	}
	next := []Next{{Label: "the same run again", Curl: ask(r.chapter.Number, r.variant.Name)}}
	for _, c := range r.lab.Chapters {
		if c.Number > r.chapter.Number && r.fault.NotApplicable(c, r.spec.Bus) == "" {
			return append(next, Next{Label: fmt.Sprintf("the same fault in chapter %d", c.Number), Curl: ask(c.Number, "")})
		}
	}
	return next
}
