package web

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/gin-gonic/gin"
)

// indexAnswer lists the calls.
type indexAnswer struct {
	Name  string            `json:"name"`
	Calls []callAnswer      `json:"calls"`
	Next  []next            `json:"next"`
	Links map[string]string `json:"links"`
}

type callAnswer struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	About  string `json:"about"`
}

//go:embed index.html
var indexPage string

func (s *server) index(c *gin.Context) {
	a := &indexAnswer{
		Name:  "Outbox Playground",
		Links: map[string]string{"page": base(c) + "/", "openapi": base(c) + "/openapi.json"},
		Next: []next{
			{"place an order", curl(c, http.MethodPost, "/demo/place-order", "user_id", "u1", "items", "A,B")},
			{"the chapters", curl(c, http.MethodGet, "/chapters")},
			{"the buses", curl(c, http.MethodGet, "/buses")},
		},
	}
	for _, r := range s.routes {
		a.Calls = append(a.Calls, callAnswer{r.method, openPath(r.path), r.about})
	}
	if wanted(c.Request) == asHTML {
		writeHTML(c, a)
		return
	}
	reply(c, http.StatusOK, a)
}

func writeHTML(c *gin.Context, a *indexAnswer) {
	var b bytes.Buffer
	page := template.Must(template.New("index").Parse(indexPage)) // our own file, a test shows it
	if err := page.Execute(&b, a); err != nil {
		panic(err)
	}
	c.Data(http.StatusOK, "text/html; charset=utf-8", b.Bytes())
}

// WriteText writes the calls as an aligned list.
func (a *indexAnswer) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\n\n", a.Name)
	for _, call := range a.Calls {
		fmt.Fprintf(w, "%s\t%s\t%s\n", call.Method, call.Path, call.About)
	}
	fmt.Fprintln(w)
	writeNext(w, a.Next)
	return w.Flush()
}
