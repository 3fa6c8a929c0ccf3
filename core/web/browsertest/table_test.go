package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pageCase is a page that the tests look at. {run}, {event} and so on are filled in
// with what the desk has.
type pageCase struct {
	name  string
	route string // as the OpenAPI document writes it
	path  string
	like  bool // made by the template of another page: axe need not judge it again
}

// pages lists every page. A route that answers a browser with a page and is not here
// fails TestPages/routes.
func (d *desk) pages() []pageCase {
	list := []pageCase{
		{"contents", "/", "/", false},
		{"chapters", "/chapters", "/chapters", true},
		{"chapter-1-run", "/chapters/{n}", "/chapters/1?run={run}", false},
		{"file", "/chapters/{n}/files/{file}", "/chapters/1/files/order.go", false},
		{"play", "/play", "/play?ch=3&bus=redis&n=20&fault=two-relays&seed=42", true},
		{"guarantees", "/audit/guarantees", "/audit/guarantees?bus=nats", false},
		{"guarantees-1", "/audit/guarantees", "/audit/guarantees?chapter=1", false},
		{"event", "/audit/event/{event_id}", "/audit/event/{event_id}", false},
		{"event-lost", "/audit/event/{event_id}", "/audit/event/{lost}", false},
		{"run", "/runs/{run}", "/runs/{run}", false},
		{"runs", "/runs", "/runs", false},
		{"r", "/r/{run}", "/r/{run}", true},
		{"compare", "/compare", "/compare?a={run}&b={other}", false},
		{"claims", "/claims", "/claims", false},
		{"failed", "/admin/outbox/failed", "/admin/outbox/failed?chapter=3", false},
		{"dead", "/admin/dead-letters", "/admin/dead-letters?chapter=6", false},
		{"metrics", "/metrics", "/metrics", false},
		{"buses", "/buses", "/buses", false},
		{"no-page", "", "/no-such-page", false},
	}
	for n := 1; n <= d.chapters; n++ {
		list = append(list, pageCase{fmt.Sprint("chapter-", n), "/chapters/{n}", fmt.Sprint("/chapters/", n), n != 3})
	}
	return list
}

func (d *desk) path(c pageCase) string {
	return strings.NewReplacer("{run}", d.run, "{other}", d.other, "{event_id}", d.event, "{lost}", d.lost).Replace(c.path)
}

// routes: whatever answers a browser with a page is in the table, and nothing else.
func (d *desk) routes(t *testing.T) {
	var api struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	resp, err := http.Get(d.api + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&api); err != nil {
		t.Fatal(err)
	}
	if len(api.Paths) < 20 {
		t.Fatalf("only %d paths in /openapi.json", len(api.Paths))
	}
	for route, methods := range api.Paths {
		if _, gets := methods["get"]; !gets || changes(route) {
			continue
		}
		listed := slices.ContainsFunc(d.pages(), func(c pageCase) bool { return c.route == route })
		if page := d.isPage(t, route); page != listed {
			t.Errorf("%s: answers a browser with a page: %v; is in the table of this package: %v", route, page, listed)
		}
	}
}

// changes tells the one call that works although a GET asks for it.
func changes(route string) bool { return route == "/demo/race-naive-vs-outbox" }

// isPage asks as a browser does.
func (d *desk) isPage(t *testing.T, route string) bool {
	t.Helper()
	path := regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(route, func(name string) string {
		known := map[string]string{"{run}": d.run, "{event_id}": d.event, "{n}": "1", "{id}": d.run,
			"{file}": "order.go", "{build}": "none", "{name}": "none", "{bus}": "nats"}
		if known[name] == "" {
			t.Fatalf("%s: what is %s?", route, name)
		}
		return known[name]
	})
	req, err := http.NewRequest(http.MethodGet, d.api+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	resp, err := http.DefaultTransport.RoundTrip(req) // a call that leads to a page is none itself
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	file := resp.Header.Get("Content-Disposition") != "" // the exported run, see TestPages/export
	return resp.StatusCode == http.StatusOK && !file && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
}
