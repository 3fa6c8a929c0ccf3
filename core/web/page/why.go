package page

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
)

// reasons turn English sentences that a page is handed into another language: those of
// the audit, as its words are in reports and on the command line, and the labels of the
// calls that make sense next, as they are in the API. A sentence that has no translation
// stays as it is, and says so.
type reasons struct{ all []reason }

type reason struct {
	pattern *regexp.Regexp
	said    string // with %s for what the pattern caught, in the same order
}

// These begin the keys of such sentences. The English text is that of the audit or of
// the API, with %s for what differs from case to case.
const (
	whyPrefix  = "why."
	nextPrefix = "next."
)

// newReasons reads those whose keys begin with prefix. The longest English sentence
// comes first: where two of them fit, it says more.
func newReasons(all words, l Lang, prefix string) reasons {
	var r reasons
	for key, text := range all {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		said, _ := l.Pick(text)
		pattern := strings.ReplaceAll(regexp.QuoteMeta(text.En), "%s", "(.*?)")
		r.all = append(r.all, reason{regexp.MustCompile("(?s)^" + pattern + "$"), said})
	}
	slices.SortFunc(r.all, func(a, b reason) int {
		x, y := a.pattern.String(), b.pattern.String()
		return cmp.Or(cmp.Compare(len(y), len(x)), cmp.Compare(x, y))
	})
	return r
}

// say translates a reason: sentences joined with semicolons.
func (r reasons) say(l Lang, why string) template.HTML {
	if l == English {
		return Escaped(why)
	}
	parts := strings.Split(why, "; ")
	for i, part := range parts {
		said, ok := r.one(part)
		if !ok {
			return inEnglish(why)
		}
		parts[i] = said
	}
	return Escaped(strings.Join(parts, "；"))
}

// inEnglish marks what has no translation.
func inEnglish(text string) template.HTML {
	return `<span lang="en">` + Escaped(text) + `</span>`
}

func (r reasons) one(part string) (string, bool) {
	said, caught, ok := r.match(part)
	return fill(said, caught), ok
}

// match finds the sentence that a part is, and what differs from case to case in it.
func (r reasons) match(part string) (said string, caught []string, ok bool) {
	for _, known := range r.all {
		if caught := known.pattern.FindStringSubmatch(part); caught != nil {
			return known.said, caught[1:], true
		}
	}
	return "", nil, false
}

// fill puts into a sentence what differs. One without it may have a % of its own.
func fill(said string, caught []string) string {
	if len(caught) == 0 {
		return said
	}
	args := make([]any, len(caught))
	for i := range caught {
		args[i] = caught[i]
	}
	return fmt.Sprintf(said, args...)
}
