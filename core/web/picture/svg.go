package picture

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"
)

// canvas collects the elements of one SVG.
type canvas struct{ b strings.Builder }

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

// text writes a label; what it says is escaped.
func (c *canvas) text(class string, x, y float64, anchor, said string) {
	c.add(`<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, class, x, y, anchor, esc(said))
}

// svg wraps what was drawn. id makes the title's and the description's ids unique on
// a page; "" makes a picture for the eye only, whose facts stand elsewhere.
func (c *canvas) svg(class, id, title, desc string, w, h float64) template.HTML {
	label, head := ` aria-hidden="true"`, ""
	if id != "" {
		label = fmt.Sprintf(` role="img" aria-labelledby="%s-title %s-desc"`, id, id)
		head = fmt.Sprintf("<title id=\"%s-title\">%s</title>\n<desc id=\"%s-desc\">%s</desc>\n", id, esc(title), id, esc(desc))
	}
	return template.HTML(fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"%s\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\"%s>\n%s%s</svg>",
		class, w, h, w, h, label, head, c.b.String()))
}

func esc(s string) string { return template.HTMLEscapeString(s) }

// width estimates how wide a label is at the size of the pictures' text, 12 px.
func width(s string) (w float64) {
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r > 0xff00:
			w += 12.5
		case unicode.IsUpper(r) || unicode.IsDigit(r):
			w += 7.8
		default:
			w += 6.5
		}
	}
	return w
}
