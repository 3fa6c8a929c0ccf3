package page

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed templates/*.html
var templateFiles embed.FS

// Pages renders the pages. It is safe for concurrent use.
type Pages struct {
	assets assets
	words  words
	made   map[Lang]map[string]*template.Template
}

// View is what a handler shows.
type View struct {
	// Title is the page's own, without the name of the playground.
	Title template.HTML
	// Nav is the path of the entry in the navigation that the page belongs to.
	Nav string
	// Data is for the page's template.
	Data any
	// Scripts are modules among the static files.
	Scripts []string
	// Refresh reloads the page after so many seconds where there is no JavaScript.
	Refresh int
	// Wide gives the page more than a column of text.
	Wide bool
	// Predicts: the page asks for a prediction, and a link at its very top leads there.
	Predicts bool
}

// Reader is who looks: what the switches stand at, and where the reader is.
type Reader struct {
	Lang      Lang
	Theme     string // light, dark, or "" for the machine's own
	Projector bool
	Here      string // path and query
}

// frame is what the layout sees.
type frame struct {
	View
	Reader
	Entries []entry
	// Alone: a file that nothing serves; it has no forms.
	Alone bool
}

// entry is a link of the navigation.
type entry struct{ Path, Word string }

// nav lists the pages that can be reached from everywhere.
func nav() []entry {
	return []entry{
		{"/", "nav.contents"},
		{"/audit/guarantees", "nav.guarantees"},
		{"/claims", "nav.claims"},
		{"/runs", "nav.runs"},
		{"/buses", "nav.buses"},
		{"/metrics", "nav.metrics"},
		{"/admin/outbox/failed", "nav.admin"},
	}
}

// New reads the templates, the words and the static files. An error is a mistake in
// one of these files, all of which are compiled in.
func New() (*Pages, error) {
	p := &Pages{made: map[Lang]map[string]*template.Template{}}
	var err error
	if p.words, err = readWords(wordFiles); err != nil {
		return nil, err
	}
	if p.assets, err = readAssets(staticFiles); err != nil {
		return nil, err
	}
	for _, l := range Langs() {
		if p.made[l], err = p.parse(l); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// shared are the files that every page is parsed with.
func shared() []string {
	return []string{"templates/layout.html", "templates/parts.html", "templates/verdict.html", "templates/pictures.html"}
}

func (p *Pages) parse(l Lang) (map[string]*template.Template, error) {
	base, err := template.New("layout.html").Funcs(p.funcs(l)).ParseFS(templateFiles, shared()...)
	if err != nil {
		return nil, err
	}
	if base, err = base.ParseFS(aloneFile, "alone/alone.html"); err != nil {
		return nil, err
	}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	made := map[string]*template.Template{}
	for _, name := range names {
		if slices.Contains(shared(), name) {
			continue
		}
		page, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if page, err = page.ParseFS(templateFiles, name); err != nil {
			return nil, err
		}
		made[strings.TrimSuffix(path.Base(name), ".html")] = page
	}
	return made, nil
}

// Write writes a page.
func (p *Pages) Write(w io.Writer, name string, r Reader, v View) error {
	page, ok := p.made[r.Lang][name]
	if !ok {
		return fmt.Errorf("there is no page %q in %q", name, r.Lang)
	}
	return page.ExecuteTemplate(w, "layout.html", frame{View: v, Reader: r, Entries: nav()})
}

// Say is the sentence of a key, for titles. A key without words is shown as it is.
func (p *Pages) Say(l Lang, key string, args ...any) template.HTML {
	s, err := p.words.say(l, key, args...)
	if err != nil {
		return template.HTML(template.HTMLEscapeString(key))
	}
	return s
}
