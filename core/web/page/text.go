package page

import (
	"bytes"
	"html/template"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Section is a part of a text, from one second-level heading to the next.
type Section struct {
	ID    string
	Title template.HTML
	Body  template.HTML
}

// Link rewrites the destination of a link; "" leaves only its text.
type Link func(dest string) string

// Sections renders the sections of a Markdown text; what stands before the first
// heading of the second level is left out. Their ids are those of original, the same
// text in English, so that an anchor leads to the same place in both languages.
func Sections(source, original []byte, link Link) ([]Section, error) {
	m := markdown()
	ids := &headingIDs{}
	if !bytes.Equal(source, original) {
		ids.given = headings(m, original)
	}
	doc := m.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	relink(doc, link)
	joinLines(doc, source)
	var all []Section
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, isHeading := n.(*ast.Heading)
		switch {
		case isHeading && h.Level == 2:
			title, err := inline(m, source, h)
			if err != nil {
				return nil, err
			}
			all = append(all, Section{ID: idOf(h), Title: title})
		case len(all) > 0:
			body, err := block(m, source, n)
			if err != nil {
				return nil, err
			}
			all[len(all)-1].Body += body
		}
	}
	return all, nil
}

// markdown reads GFM. In Chinese text a line break is no blank, and an escaped blank
// lets emphasis stand beside a full-width mark.
func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)),
			extension.Strikethrough, extension.Linkify,
			extension.NewCJK(extension.WithEastAsianLineBreaks(), extension.WithEscapedSpace())),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(codeBlocks{}, 100))),
	)
}

// relink rewrites every link; one that leads nowhere here becomes its text.
func relink(doc ast.Node, link Link) {
	var dead []*ast.Link
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if l, ok := n.(*ast.Link); ok && entering {
			to := link(string(l.Destination))
			l.Destination = []byte(to)
			if to == "" {
				dead = append(dead, l)
			}
		}
		return ast.WalkContinue, nil // hence no error
	})
	for _, l := range dead {
		for child := l.FirstChild(); child != nil; child = l.FirstChild() {
			l.Parent().InsertBefore(l.Parent(), l, child)
		}
		l.Parent().RemoveChild(l.Parent(), l)
	}
}

// fullWidth are marks with white of their own: beside them a line break is no blank,
// whatever stands on its other side.
const fullWidth = "，。、；：？！（）「」『』《》…"

// joinLines drops line breaks beside full-width marks. Those between two Chinese
// characters are dropped by the extension; one between a Chinese and a Latin word stays
// a blank.
func joinLines(doc ast.Node, source []byte) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering && t.SoftLineBreak() {
			last, _ := utf8.DecodeLastRune(t.Segment.Value(source))
			after, _ := utf8.DecodeRune(source[min(t.Segment.Stop+1, len(source)):])
			if strings.ContainsRune(fullWidth, last) || strings.ContainsRune(fullWidth, after) {
				t.SetSoftLineBreak(false)
			}
		}
		return ast.WalkContinue, nil // hence no error
	})
}

// inline renders what stands inside a heading.
func inline(m goldmark.Markdown, source []byte, n ast.Node) (template.HTML, error) {
	var b bytes.Buffer
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if err := m.Renderer().Render(&b, source, child); err != nil {
			return "", err
		}
	}
	return template.HTML(b.String()), nil
}

// block renders a block. A table can be scrolled where the page is narrow.
func block(m goldmark.Markdown, source []byte, n ast.Node) (template.HTML, error) {
	var b bytes.Buffer
	_, table := n.(*extast.Table)
	if table {
		b.WriteString(`<div class="scroll" tabindex="0">`)
	}
	if err := m.Renderer().Render(&b, source, n); err != nil {
		return "", err
	}
	if table {
		b.WriteString("</div>\n")
	}
	return template.HTML(b.String()), nil
}
