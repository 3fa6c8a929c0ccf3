package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// problem is an error as RFC 9457 wants it. Its type is always about:blank: what
// tells problems apart is code, which does not change.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Fix    string `json:"fix"`
	// Errors names every field that is wrong.
	Errors  []fieldError `json:"errors,omitempty"`
	EventID string       `json:"event_id,omitempty"`
	Next    []next       `json:"next,omitempty"`

	retryAfter string // seconds, for the header
	// Texts are those within Detail and Fix that both languages have.
	Texts []lab.Text `json:"-"`
	// Run is the one whose page a reader should see; "" is none.
	Run string `json:"-"`
}

// fieldError says what is wrong with one field or parameter.
type fieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func newProblem(status int, code, detail, fix string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: detail, Code: code, Fix: fix}
}

// fail answers with the problem, as a document or as a page, and ends the request's
// handling.
func fail(c *gin.Context, p *problem) {
	if p.retryAfter != "" {
		c.Header("Retry-After", p.retryAfter)
	}
	c.Abort()
	if s, ok := c.Value(serverKey).(*server); ok && (wantsPage(c) || problemAsPage(c.Request)) {
		s.show(c, p.Status, "problem", page.View{Title: s.say(c, "problem.status."+strconv.Itoa(p.Status)), Data: p})
		return
	}
	writeJSON(c, p.Status, "application/problem+json", p)
}

func notFound(path string) *problem {
	return newProblem(http.StatusNotFound, "not_found", fmt.Sprintf("there is nothing at %q", path),
		"GET / lists every call")
}

// methodNotAllowed relies on the router, which has set Allow already.
func methodNotAllowed(c *gin.Context) *problem {
	allow := c.Writer.Header().Get("Allow")
	return newProblem(http.StatusMethodNotAllowed, "method_not_allowed",
		fmt.Sprintf("%s is not for this path", c.Request.Method), "use "+allow)
}

// invalid is the problem of fields that are wrong; there is at least one.
func invalid(errs ...fieldError) *problem {
	said := make([]string, len(errs))
	for i, e := range errs {
		said[i] = e.Field + ": " + e.Detail
	}
	p := newProblem(http.StatusUnprocessableEntity, "invalid_input", strings.Join(said, "; "),
		"change what errors names; GET /openapi.json has the limits")
	p.Errors = errs
	return p
}

// next is a call that makes sense now.
type next struct {
	Label string `json:"label"`
	Curl  string `json:"curl"`
}

// base is the address by which the client reached us. The host was checked, so it
// holds nothing that a shell would take for more than a name.
func base(c *gin.Context) string { return "http://" + c.Request.Host }

// curl writes a call of this API as a command. Arguments are query parameters, so
// that it works in every shell.
func curl(c *gin.Context, method, path string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	command := "curl -s "
	if method != http.MethodGet {
		command += "-X " + method + " "
	}
	address := base(c) + path
	if len(query) > 0 {
		address += "?" + strings.ReplaceAll(query.Encode(), "%2C", ",")
	}
	return command + `"` + address + `"`
}
