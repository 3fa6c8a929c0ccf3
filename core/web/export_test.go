package web

import (
	"context"
	"net/http"
	"regexp"

	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
)

// ReadStats is how the figures and their charts count the rows of a chapter.
func ReadStats(ctx context.Context, db outbox.Querier, ch lab.Chapter) (outbox.Stats, error) {
	return readStats(ctx, db, ch)
}

// What the tests hold against the OpenAPI document.

// OpenAPIDocument is the document as it is served.
func OpenAPIDocument() []byte { return openapiDocument }

// Routes lists what is really registered, as "METHOD /path"; HEAD follows GET.
func Routes() (list []string) {
	s := &server{live: &lab.Live{}}
	s.routes = s.table()
	for _, r := range s.engine().Routes() {
		if r.Method != http.MethodHead {
			list = append(list, r.Method+" "+openPath(r.Path))
		}
	}
	return list
}

// Changing lists the calls that change something, with x for what their paths leave open.
func Changing() (list []string) {
	open := regexp.MustCompile(`:[a-z_]+`)
	for _, r := range (&server{}).table() {
		if r.changes {
			list = append(list, r.method+" "+open.ReplaceAllString(r.path, "x"))
		}
	}
	return list
}

// Parameters lists the parameters that each call knows.
func Parameters() map[string][]string {
	calls := map[string][]string{}
	for _, r := range (&server{}).table() {
		names := []string{}
		for _, p := range r.params {
			names = append(names, p.name)
		}
		calls[r.method+" "+openPath(r.path)] = names
	}
	return calls
}

// CheckJSON returns the code of the problem with a body, "" if there is none.
func CheckJSON(raw []byte) string {
	if p := checkJSON(raw); p != nil {
		return p.Code
	}
	return ""
}
