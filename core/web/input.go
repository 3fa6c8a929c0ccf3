package web

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// maxBody is the largest body that is read.
const maxBody = 1 << 20

// input holds the parameters of a request by name, wherever they came from: a
// string, []string, bool, int64 or, for a seed, uint64, as the kind of the parameter says.
type input map[string]any

const inputKey = "input"

func inputOf(c *gin.Context) input { return c.MustGet(inputKey).(input) }

// str returns a text parameter and whether it was given.
func (in input) str(name string) (string, bool) {
	s, ok := in[name].(string)
	return s, ok
}

// accept reads and judges everything that a client may send along, so that the
// handlers meet sound values only. Reads ignore parameters that they do not know,
// as links collect such; what changes something refuses them.
func (s *server) accept(r route) gin.HandlerFunc {
	return func(c *gin.Context) {
		if r.changes {
			if p := crossSite(c.Request); p != nil {
				fail(c, p)
				return
			}
		}
		in, errs, p := fromQuery(withoutEmpty(c, c.Request.URL.RawQuery), r.params, r.changes)
		if p == nil && r.changes {
			var body input
			var more []fieldError
			body, more, p = fromBody(c, r.params)
			errs = append(append(errs, more...), in.merge(body)...)
		}
		if p == nil && len(errs) > 0 {
			p = invalid(errs...)
		}
		if p != nil {
			fail(c, p)
			return
		}
		c.Set(inputKey, in)
	}
}

// merge adds other's values and complains about those that say something else.
func (in input) merge(other input) (errs []fieldError) {
	for name, value := range other {
		if had, ok := in[name]; ok && !reflect.DeepEqual(had, value) {
			errs = append(errs, fieldError{name, "given in the query and in the body, with different values"})
		}
		in[name] = value
	}
	slices.SortFunc(errs, byField)
	return errs
}

func byField(a, b fieldError) int { return cmp.Compare(a.Field, b.Field) }

// fromBody reads a body in the form that its Content-Type names. None is fine.
func fromBody(c *gin.Context, params []param) (input, []fieldError, *problem) {
	raw, p := readBody(c)
	if p != nil || len(raw) == 0 {
		return nil, nil, p
	}
	kind, attrs, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	charset := attrs["charset"]
	plain := c.GetHeader("Content-Encoding") == "" && (charset == "" || strings.EqualFold(charset, "utf-8"))
	switch {
	case err == nil && plain && kind == "application/json":
		return fromJSON(raw, params)
	case err == nil && plain && kind == "application/x-www-form-urlencoded":
		return fromQuery(withoutEmpty(c, string(raw)), params, true)
	}
	return nil, nil, newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type",
		fmt.Sprintf("a body of type %q cannot be read", shorten(c.GetHeader("Content-Type"))),
		"send application/json or application/x-www-form-urlencoded in UTF-8, uncompressed, or no body at all")
}

// withoutEmpty leaves out the fields of a page's form that nobody has filled in: a
// browser sends them along.
func withoutEmpty(c *gin.Context, form string) string {
	if !wantsPage(c) {
		return form
	}
	return strings.Join(slices.DeleteFunc(strings.Split(form, "&"), func(pair string) bool {
		return strings.HasSuffix(pair, "=")
	}), "&")
}

// readBody reads the body up to its limit.
func readBody(c *gin.Context) ([]byte, *problem) {
	raw, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, newProblem(http.StatusRequestEntityTooLarge, "body_too_large",
			fmt.Sprintf("the body is larger than %d bytes", maxBody), "send less")
	case err != nil:
		return nil, newProblem(http.StatusBadRequest, "unreadable_body", "the body broke off", "send it again")
	}
	return raw, nil
}
