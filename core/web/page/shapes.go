package page

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
)

// shapes are the signs of the outcomes, drawn around the origin in a square of 16 by
// 16. They are drawn and not typed, because ⧉ and its like are missing in many fonts.
func shapes() map[string]string {
	line := func(d string) string {
		return `<path d="` + d + `" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"/>`
	}
	solid := func(d string) string { return `<path d="` + d + `" fill="currentColor"/>` }
	tick := line("M-5.5.5-1.5 4.5 5.5-4")
	return map[string]string{
		"delivered":  tick,
		"ok":         tick,
		"late":       line("M0-6a6 6 0 1 0 .1 0M0-3v3.5l2.5 1.5"),
		"lost":       line("M-4.5-4.5 4.5 4.5M4.5-4.5-4.5 4.5"),
		"duplicated": line("M-5.5-2.5h7v7h-7zM-2.5-5.5h8v8"),
		"phantom":    line("M0-5.5 6 5h-12zM0-1.5v2.5M0 3v.1"),
		"reordered":  line("M-3 5V-5m-2.5 3 2.5-3 2.5 3M3-5V5m-2.5-3 2.5 3 2.5-3"),
		"stuck":      solid("M-2.5-6h5v12h-5z"),
		"refused":    line("M-5 0H5"),
		"pending":    line("M-5 0h.1M0 0h.1M5 0h.1"),
		"unknown":    line("M-2.5-2.5a2.6 2.6 0 1 1 3.6 2.4Q0 .5 0 1.8M0 5v.1"),
		"n/a":        line("M0 0h.1"),
	}
}

// sign draws the shape of an outcome.
func sign(word string) string {
	return `<svg class="sign" viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true">` + shapes()[word] + `</svg>`
}

// more are the shapes of a prediction, beside those of outcomes.
func more() map[string]string {
	return map[string]string{
		"predicted":     `<circle r="4.5" fill="none" stroke="currentColor" stroke-width="1.6"/>`,
		"not-predicted": `<circle r="1.2" fill="currentColor"/>`,
	}
}

// defined has every shape once, for the strips of a page.
func defined() template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="unseen" aria-hidden="true" width="0" height="0"><defs>`)
	for _, all := range []map[string]string{shapes(), more()} {
		for _, word := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&b, `<g id="s-%s">%s</g>`, strings.ReplaceAll(word, "/", ""), all[word])
		}
	}
	b.WriteString("</defs></svg>")
	return template.HTML(b.String())
}
