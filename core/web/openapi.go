package web

import (
	_ "embed"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// openapiDocument is written by hand; the tests hold routes and answers against it.
//
//go:embed openapi.json
var openapiDocument []byte

func (s *server) openapi(c *gin.Context) {
	c.Data(http.StatusOK, "application/json", openapiDocument)
}

// openPath writes the router's :name as OpenAPI's {name}.
func openPath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if name, ok := strings.CutPrefix(p, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}
