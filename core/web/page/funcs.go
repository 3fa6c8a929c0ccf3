package page

import (
	"fmt"
	"html/template"
	"regexp"
	"time"

	"outboxplayground/core/lab"
)

// funcs are what templates can call.
//
//	t KEY ARG…       the words of a key
//	tr TEXT          a lab.Text in the reader's language
//	trcode TEXT      the same, with what stands in backticks as code
//	asset NAME       the address of a static file
//	why TEXT         a reason of the audit in the reader's language
//	label TEXT       the label of a call in the reader's language
//	problem CODE TEXT TEXTS  what a problem says in the reader's language; TEXTS may stand in it
//	field TEXT       the same about one field
//	unpublished TEXT why a publish failed, in words, from the text stored with its row
//	unhandled TEXT   the same for a dead letter and its reason
//	outcome WORD     the sign and the word of an outcome
//	outcome WORD N   the same with a count
//	shapes           the shapes that a strip refers to, once a page
//	clock TIME       a time of day, with the full one for machines
//	pairs K V …      a map, for templates that take more than one value
func (p *Pages) funcs(l Lang) template.FuncMap {
	because, calls := newReasons(p.words, l, whyPrefix), newReasons(p.words, l, nextPrefix)
	told := newProblems(p.words, l)
	inTicks := regexp.MustCompile("`([^`]+)`")
	return template.FuncMap{
		"why":   func(why string) template.HTML { return because.say(l, why) },
		"label": func(label string) template.HTML { return calls.say(l, label) },
		"problem": func(code, text string, known []lab.Text) template.HTML {
			return told.said(l, told.byCode[code], text, known)
		},
		"field": func(text string) template.HTML { return told.said(l, told.fields, text, nil) },
		"unpublished": func(text string) (template.HTML, error) {
			return p.words.say(l, "failure.publish."+publishClass(text).String())
		},
		"unhandled": func(text string) (template.HTML, error) {
			return p.words.say(l, "failure.handling."+handlingClass(text))
		},
		"t":       func(key string, args ...any) (template.HTML, error) { return p.words.say(l, key, args...) },
		"tr":      func(t lab.Text) template.HTML { return mark(l, t) },
		"trcode":  func(t lab.Text) template.HTML { return ticked(inTicks, mark(l, t)) },
		"asset":   p.assets.url,
		"outcome": func(word string, n ...any) (template.HTML, error) { return p.outcome(l, word, n...) },
		"shapes":  defined,
		"clock":   clock,
		"pairs":   pairs,
		"stages":  func() []string { return []string{"queued", "preparing", "running", "waiting", "judging"} },
	}
}

// ticked shows what the pattern caught, which is what stands in backticks, as code.
func ticked(inTicks *regexp.Regexp, text template.HTML) template.HTML {
	return template.HTML(inTicks.ReplaceAllString(string(text), "<code>$1</code>"))
}

// outcome writes what became of an event, or of so many of them.
func (p *Pages) outcome(l Lang, word string, n ...any) (template.HTML, error) {
	if _, ok := shapes()[word]; !ok {
		return "", fmt.Errorf("%q is no outcome", word)
	}
	said, err := p.words.say(l, "outcome."+word)
	if err != nil {
		return "", err
	}
	count := ""
	if len(n) > 0 {
		count = fmt.Sprintf("%d ", n[0]) // an int of any size
	}
	class := word
	if word == "n/a" {
		class = "na"
	}
	return template.HTML(fmt.Sprintf(`<span class="outcome is-%s">%s%s%s</span>`, class, sign(word), count, said)), nil
}

func clock(at time.Time) template.HTML {
	at = at.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s UTC</time>`, at.Format(time.RFC3339), at.Format("2006-01-02 15:04:05")))
}

func pairs(values ...any) (map[string]any, error) {
	if len(values)%2 != 0 {
		return nil, fmt.Errorf("a name without a value")
	}
	m := map[string]any{}
	for i := 0; i < len(values); i += 2 {
		name, ok := values[i].(string)
		if !ok {
			return nil, fmt.Errorf("%v is no name", values[i])
		}
		m[name] = values[i+1]
	}
	return m, nil
}

// Escaped makes text safe to stand in a page.
func Escaped(text string) template.HTML { return template.HTML(template.HTMLEscapeString(text)) }
