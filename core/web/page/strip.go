package page

import (
	"fmt"
	"html/template"
	"strings"
)

// The measures of a strip.
const (
	stripCell = 16  // user units
	stripRow  = 25  // orders in a row: still legible on a phone
	stripMost = 200 // orders; more would be a texture
)

// Strip draws one shape an order, in order: each word is an outcome, or "predicted"
// and "not-predicted". It is decoration: the counts stand beside it in words.
func Strip(words []string) template.HTML {
	if len(words) == 0 || len(words) > stripMost {
		return ""
	}
	rows := (len(words) + stripRow - 1) / stripRow
	columns := min(len(words), stripRow)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" aria-hidden="true" viewBox="0 0 %d %d" width="%d" height="%[2]d">`,
		columns*stripCell, rows*stripCell, columns*stripCell)
	for i, word := range words {
		x, y := i%stripRow*stripCell+stripCell/2, i/stripRow*stripCell+stripCell/2
		fmt.Fprintf(&b, `<use href="#s-%s" x="%d" y="%d" class="is-%s"/>`, word, x, y, word)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
