package page

import (
	"embed"
	"fmt"
	"html/template"
	"io"
)

// The layout of a file that nothing serves. It has its styles inside, which the policy
// forbids in a page.
//
//go:embed alone/alone.html
var aloneFile embed.FS

// aloneFrame is what the layout of a file sees that needs nothing else.
type aloneFrame struct {
	frame
	Styles []template.CSS
	Module template.JS
}

// WriteAlone writes a page as one file: no navigation, the styles and one module inside.
// It is for downloads; what is served has to keep to the policy.
func (p *Pages) WriteAlone(w io.Writer, name string, r Reader, v View, module string) error {
	page, ok := p.made[r.Lang][name]
	if !ok {
		return fmt.Errorf("there is no page %q in %q", name, r.Lang)
	}
	f := aloneFrame{frame: frame{View: v, Reader: r, Alone: true}, Module: template.JS(p.assets.files[module])}
	for _, sheet := range []string{"style.css", "pictures.css"} {
		f.Styles = append(f.Styles, template.CSS(p.assets.files[sheet]))
	}
	return page.ExecuteTemplate(w, "alone", f)
}
