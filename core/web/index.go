package web

import (
	"fmt"
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

func (s *server) index(c *gin.Context) {
	if wantsPage(c) {
		s.contentsPage(c)
		return
	}
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
	reply(c, http.StatusOK, a)
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
