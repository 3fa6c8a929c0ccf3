package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

// face is the form in which an answer is wanted.
type face int

const (
	asJSON face = iota
	asText
	asHTML
	asPrometheus
)

// texter is an answer that can also be written as aligned text.
type texter interface{ WriteText(w io.Writer) error }

type suffixKey struct{}

// withTextSuffix lets every path end in .txt, which asks for text as Accept would.
func withTextSuffix(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, found := strings.CutSuffix(r.URL.Path, ".txt")
		if found {
			r = r.Clone(context.WithValue(r.Context(), suffixKey{}, true))
			r.URL.Path, r.URL.RawPath = path, ""
		}
		h.ServeHTTP(w, r)
	})
}

// wanted reads what the client wants: the suffix, else its favourite in Accept.
// JSON is the answer to everything else, browsers included where there is no page.
func wanted(r *http.Request) face {
	if r.Context().Value(suffixKey{}) != nil {
		return asText
	}
	best, bestQ := asJSON, 0.0
	for _, item := range strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		q := 1.0
		if given, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(given, 64); err != nil {
				continue
			}
		}
		if f, known := faceOf(kind, params); known && q > bestQ {
			best, bestQ = f, q
		}
	}
	return best
}

// problemAsPage tells whether a client that wants JSON names a page, and no other form that
// a problem has. The scripts of the pages do: what went wrong is for a reader.
func problemAsPage(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if wanted(r) != asJSON || !strings.Contains(accept, "text/html") {
		return false
	}
	for _, other := range []string{"*/*", "application/*", "application/problem+json"} {
		if strings.Contains(accept, other) {
			return false
		}
	}
	return true
}

func faceOf(kind string, params map[string]string) (face, bool) {
	switch {
	case kind == "application/openmetrics-text", kind == "text/plain" && params["version"] != "":
		return asPrometheus, true
	case kind == "text/plain", kind == "text/*":
		return asText, true
	case kind == "text/html":
		return asHTML, true
	case kind == "application/json", kind == "application/*", kind == "*/*":
		return asJSON, true
	}
	return asJSON, false
}

// reply answers with v as JSON, or as text where that is wanted and v can.
func reply(c *gin.Context, status int, v any) {
	if t, ok := v.(texter); ok && wanted(c.Request) == asText {
		var b bytes.Buffer
		if err := t.WriteText(&b); err == nil {
			c.Data(status, "text/plain; charset=utf-8", b.Bytes())
			return
		}
	}
	writeJSON(c, status, "application/json", v)
}

// writeJSON leaves <, > and & alone, so that the curl lines can be copied.
func writeJSON(c *gin.Context, status int, contentType string, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err) // our own types always encode
	}
	c.Data(status, contentType, b.Bytes())
}

// millis is a duration in milliseconds with two decimals.
type millis float64

// MarshalJSON writes a number.
func (m millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m), 'f', 2, 64), nil
}
