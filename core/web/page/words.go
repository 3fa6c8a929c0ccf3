package page

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"

	"outboxplayground/core/lab"
)

//go:embed words/*.json
var wordFiles embed.FS

// words are the sentences of the pages by key.
type words map[string]lab.Text

// readWords reads every file of words. A key may be in one of them only.
func readWords(files fs.FS) (words, error) {
	names, err := fs.Glob(files, "words/*.json")
	if err != nil {
		return nil, err
	}
	all := words{}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		var some words
		if err := json.Unmarshal(raw, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for key, text := range some {
			if _, twice := all[key]; twice {
				return nil, fmt.Errorf("%s: %q is in another file too", name, key)
			}
			all[key] = text
		}
	}
	return all, nil
}

// say writes the sentence of a key, escaped, with its arguments.
func (w words) say(l Lang, key string, args ...any) (template.HTML, error) {
	text, ok := w[key]
	if !ok {
		return "", fmt.Errorf("no words for %q", key)
	}
	return mark(l, text, args...), nil
}

// mark escapes a text. One that is not translated yet is in English and says so; in
// an attribute the template leaves the tags away.
func mark(l Lang, text lab.Text, args ...any) template.HTML {
	s, fellBack := l.Pick(text)
	safe := template.HTMLEscapeString(s)
	if len(args) > 0 {
		safe = fmt.Sprintf(safe, escaped(args)...)
	}
	if fellBack {
		safe = `<span lang="en">` + safe + `<sup class="fallback" title="尚未翻譯">en</sup></span>`
	}
	return template.HTML(safe)
}

// escaped escapes every argument that is text and not known to be safe.
func escaped(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			out[i] = template.HTMLEscapeString(a)
		case template.HTML:
			out[i] = string(a)
		default:
			out[i] = a
		}
	}
	return out
}
