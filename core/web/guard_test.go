package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"outboxplayground/core/web"
)

func TestOnlyOurHostIsAnswered(t *testing.T) {
	p := start(t, func(o *web.Options) { o.Hosts = []string{"playground"} })
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8000": 200, "LOCALHOST": 200, "127.0.0.1": 200, "127.0.0.1:1": 200,
		"[::1]": 200, "[::1]:8000": 200, "playground:8000": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:8000": 403,
		"localhost.": 403, "0.0.0.0": 403, "127.0.0.2": 403, "localhost:x": 403, "localhost:99999": 403, "[::2]": 403,
	} {
		for _, path := range []string{"/healthz", "/", "/metrics.txt"} {
			a := p.get(path, "Host", host)
			if a.status != want {
				t.Errorf("%s to %s: %d, want %d", host, path, a.status, want)
			}
			if want == 403 {
				p.wantProblem(a, 403, "foreign_host")
			}
		}
		if want == 403 {
			p.wantProblem(p.post(place, anOrder, "Host", host), 403, "foreign_host")
			p.wantProblem(p.get("/nowhere", "Host", host), 403, "foreign_host")
			p.wantProblem(p.call("DELETE", "/metrics", "", "Host", host), 403, "foreign_host")
		}
	}
	if n := p.rows(); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestOtherSitesMayReadNothingButChangeNothing(t *testing.T) {
	raced := 0
	p := start(t, func(o *web.Options) {
		o.Race = func(context.Context, int, string) (web.RaceResult, error) {
			raced++
			return web.RaceResult{}, nil
		}
	})
	own := p.url
	for _, tt := range []struct {
		name    string
		headers []string
		allowed bool
	}{
		{"no browser", nil, true},
		{"our own page", []string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, true},
		{"typed by the user", []string{"Sec-Fetch-Site", "none"}, true},
		{"another site", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, false},
		{"another site, an old browser", []string{"Origin", "https://evil.example"}, false},
		{"another site, a link", []string{"Sec-Fetch-Site", "cross-site"}, false},
		{"another port of this machine", []string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, false},
		{"another port of this machine, a link", []string{"Sec-Fetch-Site", "same-site"}, false},
		{"a sandbox", []string{"Origin", "null"}, false},
		{"an origin that lies", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"}, false},
		{"no origin at all", []string{"Origin", "127.0.0.1"}, false},
	} {
		for _, call := range []string{
			"POST " + place + "?user_id=u1&items=A", "POST /chapters/3/orders?user_id=u1&items=A",
			"POST /demo/chaos/resume-outbox", "POST /admin/outbox/1/retry",
			"POST /demo/race-naive-vs-outbox", "GET /demo/race-naive-vs-outbox",
		} {
			method, path, _ := strings.Cut(call, " ")
			before, racedBefore := p.rows(), raced
			a := p.call(method, path, "", tt.headers...)
			if tt.allowed {
				if a.status == http.StatusForbidden {
					t.Errorf("%s: %s is refused: %s", tt.name, call, a.body)
				}
				continue
			}
			p.wantProblem(a, http.StatusForbidden, "cross_site")
			if raced != racedBefore || (before == 0 && p.rows() != 0) {
				t.Errorf("%s: %s changed something", tt.name, call)
			}
		}
		p.want(p.get("/buses", tt.headers...), 200)
	}
}

// Every call that changes something refuses other sites and foreign hosts, and reads no
// more than it must.
func TestEveryCallThatChangesIsGuarded(t *testing.T) {
	p := start(t)
	large := strings.Repeat(" ", 1<<20+1)
	calls := web.Changing()
	if len(calls) < 15 {
		t.Errorf("only %d calls change something: %v", len(calls), calls)
	}
	for _, call := range calls {
		method, path, _ := strings.Cut(call, " ")
		p.wantProblem(p.call(method, path, "", "Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "cross_site")
		p.wantProblem(p.call(method, path, "", "Origin", "https://evil.example"), http.StatusForbidden, "cross_site")
		p.wantProblem(p.call(method, path, "", "Host", "evil.example"), http.StatusForbidden, "foreign_host")
		p.wantProblem(p.call(method, path, large, "Content-Type", "application/json"), http.StatusRequestEntityTooLarge, "body_too_large")
	}
}

func TestEveryAnswerIsGuardedInTheBrowser(t *testing.T) {
	p := start(t)
	for _, a := range []answer{
		p.get("/"), p.get("/", "Accept", "text/html"), p.get("/metrics"), p.get("/metrics", "Accept", "application/openmetrics-text"),
		p.get("/nowhere"), p.get("/", "Host", "evil.example"), p.call("DELETE", "/", ""), p.post(place, anOrder), p.post(place, "{"),
	} {
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'self'", "Cache-Control": "no-store",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s is %q in\n%s", name, got, a.body)
			}
		}
	}
}
