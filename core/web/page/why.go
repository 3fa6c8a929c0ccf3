package page

import (
	"fmt"
	"html/template"
	"regexp"
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

func newReasons(all words, l Lang, prefix string) reasons {
	var r reasons
	for key, text := range all {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		said, _ := l.Pick(text)
		pattern := strings.ReplaceAll(regexp.QuoteMeta(text.En), "%s", "(.+?)")
		r.all = append(r.all, reason{regexp.MustCompile("^" + pattern + "$"), said})
	}
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
			return template.HTML(`<span lang="en">` + template.HTMLEscapeString(why) + `</span>`)
		}
		parts[i] = said
	}
	return Escaped(strings.Join(parts, "；"))
}

func (r reasons) one(part string) (string, bool) {
	for _, known := range r.all {
		caught := known.pattern.FindStringSubmatch(part)
		if caught == nil {
			continue
		}
		args := make([]any, len(caught)-1)
		for i := range args {
			args[i] = caught[i+1]
		}
		return fmt.Sprintf(known.said, args...), true
	}
	return "", false
}
