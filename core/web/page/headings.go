package page

import (
	"fmt"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// headingIDs gives out ids made of the heading's words, or the given ones in order.
type headingIDs struct {
	given []string
	made  []string
}

// Generate makes the id of the next heading.
func (h *headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	id := slug(string(value))
	if n := len(h.made); n < len(h.given) {
		id = h.given[n]
	}
	for _, other := range h.made {
		if other == id {
			id = fmt.Sprintf("%s-%d", id, len(h.made))
		}
	}
	h.made = append(h.made, id)
	return []byte(id)
}

// Put notes an id that a text gives itself; ours give none.
func (h *headingIDs) Put([]byte) {}

// slug spells a heading as GitHub does, for the letters that ours have.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, strings.TrimSpace(heading))
}

func headings(m goldmark.Markdown, source []byte) []string {
	ids := &headingIDs{}
	m.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	return ids.made
}

func idOf(h *ast.Heading) string {
	id, _ := h.AttributeString("id")
	raw, _ := id.([]byte)
	return string(raw)
}
