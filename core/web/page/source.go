package page

import (
	"html/template"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// SourceLine is a line of code as a page shows it.
type SourceLine struct {
	No   int // from 1
	HTML template.HTML
	// Marked: it is one of the lines that matter.
	Marked bool

	text string
}

// Source is a file with the lines that matter marked.
type Source struct {
	Name  string
	Lines []SourceLine
	// Marked counts the lines that are.
	Marked int
}

// NewSource colours a Go file and marks every line that has one of the marks in it.
func NewSource(name, code string, marks []string) Source {
	s := Source{Name: name}
	plain := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	for i, line := range coloured("go", code) {
		if i == len(plain) { // what follows the last line break
			break
		}
		l := SourceLine{No: i + 1, HTML: line, text: plain[i], Marked: hasAny(plain[i], marks)}
		if l.Marked {
			s.Marked++
		}
		s.Lines = append(s.Lines, l)
	}
	return s
}

func hasAny(line string, marks []string) bool {
	for _, m := range marks {
		if strings.Contains(line, m) {
			return true
		}
	}
	return false
}

// coloured splits code into lines with a class for each kind of token. A language
// that is not known stays plain.
func coloured(lang, code string) []template.HTML {
	lexer := lexers.Get(lang)
	if lexer == nil {
		lexer = lexers.Fallback
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	if err != nil {
		return plainLines(code)
	}
	var lines []template.HTML
	for _, line := range chroma.SplitTokensIntoLines(tokens.Tokens()) {
		var b strings.Builder
		for _, token := range line {
			writeToken(&b, token)
		}
		lines = append(lines, template.HTML(b.String()))
	}
	return lines
}

func writeToken(b *strings.Builder, token chroma.Token) {
	text := template.HTMLEscapeString(strings.TrimSuffix(token.Value, "\n"))
	class := tokenClass(token.Type)
	if class == "" || strings.TrimSpace(text) == "" {
		b.WriteString(text)
		return
	}
	b.WriteString(`<span class="` + class + `">` + text + `</span>`)
}

// tokenClass is coarse on purpose: four kinds are enough to find one's way.
func tokenClass(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Comment):
		return "c"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InCategory(chroma.Keyword) && t != chroma.KeywordType:
		return "k"
	case t == chroma.NameFunction:
		return "f"
	}
	return ""
}

func plainLines(code string) (lines []template.HTML) {
	for _, line := range strings.Split(strings.TrimSuffix(code, "\n"), "\n") {
		lines = append(lines, template.HTML(template.HTMLEscapeString(line)))
	}
	return lines
}
