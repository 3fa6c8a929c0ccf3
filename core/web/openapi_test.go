package web_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"outboxplayground/core/web"
)

// contract holds the answers of a playground against its OpenAPI document.
type contract struct {
	document *openapi3.T
	router   routers.Router
}

func readContract(t *testing.T) *contract {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(web.OpenAPIDocument())
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(document)
	if err != nil {
		t.Fatal(err)
	}
	return &contract{document, router}
}

// check says what is wrong with an answer. A path or method that is not in the
// document has no answer to hold against it, other than that it is a problem.
func (c *contract) check(t *testing.T, r *http.Request, a answer) {
	t.Helper()
	r = r.Clone(context.Background())
	r.URL.Path = strings.TrimSuffix(r.URL.Path, ".txt")
	r.URL.Host, r.URL.Scheme = "", ""
	if r.Method == http.MethodHead { // the document says nothing of HEAD, which follows GET
		r.Method = http.MethodGet
	}
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		if a.status < 400 {
			t.Errorf("%s %s answers %d and is not in the document: %v", r.Method, r.URL.Path, a.status, err)
		}
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if a.status == http.StatusSeeOther { // it has a header and no content
		if route.Operation.Responses.Status(a.status) == nil || a.header.Get("Location") == "" {
			t.Errorf("%s %s: 303 to %q is not in the document", r.Method, r.URL, a.header.Get("Location"))
		}
		return
	}
	kind := a.header.Get("Content-Type")
	if !strings.Contains(kind, "json") || len(a.body) == 0 { // then only its type can be judged
		input.Options.ExcludeResponseBody = true
		described := route.Operation.Responses.Status(a.status)
		if described == nil {
			described = route.Operation.Responses.Default()
		}
		if described.Value.Content.Get(kind) == nil {
			t.Errorf("%s %s: %d as %q is not in the document", r.Method, r.URL, a.status, kind)
		}
	}
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		t.Errorf("%s %s: the answer is not what the document says: %v\n%s", r.Method, r.URL, err, a.body)
	}
}

func TestEveryRouteIsInTheDocumentAndViceVersa(t *testing.T) {
	c := readContract(t)
	var described []string
	for path, item := range c.document.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	registered := web.Routes()
	slices.Sort(described)
	slices.Sort(registered)
	if !slices.Equal(described, registered) {
		t.Errorf("the document has\n%s\nthe router has\n%s", strings.Join(described, "\n"), strings.Join(registered, "\n"))
	}
}

// Every parameter that a call knows is in the document, and no other.
func TestEveryParameterIsInTheDocumentAndViceVersa(t *testing.T) {
	c := readContract(t)
	for call, known := range web.Parameters() {
		method, path, _ := strings.Cut(call, " ")
		operation := c.document.Paths.Value(path).GetOperation(method)
		var described []string
		for _, p := range operation.Parameters {
			if p.Value.In == "query" {
				described = append(described, p.Value.Name)
			}
		}
		slices.Sort(described)
		slices.Sort(known)
		if !slices.Equal(described, known) {
			t.Errorf("%s: the document has %v, the call takes %v", call, described, known)
		}
	}
}

// The check itself is checked: an answer that lacks a field must not pass.
func TestTheContractFindsADeviation(t *testing.T) {
	c := readContract(t)
	r, err := http.NewRequest(http.MethodGet, "/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{}`, `{"status":"fine"}`, `{"status":"ok","more":1}`} {
		route, params, err := c.router.FindRoute(r)
		if err != nil {
			t.Fatal(err)
		}
		input := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
			Status:                 200, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)),
		}
		if openapi3filter.ValidateResponse(context.Background(), input) == nil {
			t.Errorf("%s passes as an answer of /healthz", body)
		}
	}
}
