package page

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
)

// reasons turn the audit's English sentences into another language. The audit speaks
// English only, as its words are in reports and on the command line; a sentence that
// has no translation stays as it is, and says so.
type reasons struct{ all []reason }

type reason struct {
	pattern *regexp.Regexp
	said    string // with %s for what the pattern caught, in the same order
}

// whyPrefix begins the keys of these sentences. Their English text is the audit's own,
// with %s for what differs from case to case.
const whyPrefix = "why."

func newReasons(all words, l Lang) reasons {
	var r reasons
	for key, text := range all {
		if !strings.HasPrefix(key, whyPrefix) {
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
