package page

import (
	"html/template"
	"strings"

	"outboxplayground/core/lab"
)

// These begin the keys of what problems say. The English text is the API's own, which
// stays English in JSON; a page says it in the reader's language.
const (
	problemPrefix = "problem.say."   // then the code of the problem and a dot
	fieldPrefix   = "problem.field." // what is wrong with one field
	partPrefix    = "problem.part."  // what stands within another sentence
)

// problems turn the sentences of problems into another language.
type problems struct {
	byCode        map[string]reasons
	fields, parts reasons
}

// newProblems is empty for English, which needs no turning.
func newProblems(all words, l Lang) problems {
	p := problems{byCode: map[string]reasons{}}
	if l == English {
		return p
	}
	for key := range all {
		if rest, ok := strings.CutPrefix(key, problemPrefix); ok {
			code, _, _ := strings.Cut(rest, ".")
			if _, read := p.byCode[code]; !read {
				p.byCode[code] = newReasons(all, l, problemPrefix+code+".")
			}
		}
	}
	p.fields, p.parts = newReasons(all, l, fieldPrefix), newReasons(all, l, partPrefix)
	return p
}

// said is a text of a problem in the reader's language. known are texts that may stand
// in it. What nobody has translated, as the words of a driver, stays as it is, marked.
func (p problems) said(l Lang, from reasons, text string, known []lab.Text) template.HTML {
	if l == English {
		return Escaped(text)
	}
	said, caught, ok := from.match(text)
	if !ok {
		return p.part(text, known)
	}
	for i := range caught {
		caught[i] = string(p.part(caught[i], known))
	}
	return template.HTML(fill(template.HTMLEscapeString(said), caught))
}

// part is what stands within a sentence. Names and lists of names are in no language.
func (p problems) part(text string, known []lab.Text) template.HTML {
	for _, t := range known {
		if t.En == text && t.ZhTW != "" {
			return mark(Chinese, t)
		}
	}
	if said, ok := p.parts.one(text); ok {
		return Escaped(said)
	}
	if strings.Contains(strings.ReplaceAll(text, ", ", ","), " ") {
		return inEnglish(text)
	}
	return Escaped(text)
}
