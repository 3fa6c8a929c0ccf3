package page

import (
	"golang.org/x/text/language"

	"outboxplayground/core/lab"
)

// Lang is a language of the pages, as <html lang> names it.
type Lang string

// The languages.
const (
	English Lang = "en"
	Chinese Lang = "zh-TW"
)

// Langs lists the languages, the first one is the default.
func Langs() []Lang { return []Lang{English, Chinese} }

// Known returns l, or "" if the pages have no such language.
func (l Lang) Known() Lang {
	for _, known := range Langs() {
		if l == known {
			return l
		}
	}
	return ""
}

// Match picks the language for an Accept-Language header.
func Match(header string) Lang {
	wanted, _, err := language.ParseAcceptLanguage(header)
	if err != nil || len(wanted) == 0 {
		return English
	}
	tags := []language.Tag{language.English, language.MustParse("zh-TW")}
	_, i, _ := language.NewMatcher(tags).Match(wanted...)
	return Langs()[i]
}

// Pick returns a text in the language, and whether it had to fall back to English.
func (l Lang) Pick(t lab.Text) (text string, fellBack bool) {
	if l == Chinese {
		if t.ZhTW != "" {
			return t.ZhTW, false
		}
		return t.En, true
	}
	return t.En, false
}
