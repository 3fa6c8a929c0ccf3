package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// browse asks like a browser and follows nothing.
func (p *playground) browse(method, path, form string, pairs ...string) answer {
	p.t.Helper()
	pairs = append([]string{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, pairs...)
	if method == http.MethodPost {
		pairs = append(pairs, "Content-Type", "application/x-www-form-urlencoded", "Origin", p.url, "Sec-Fetch-Site", "same-origin")
	}
	return p.call(method, path, form, pairs...)
}

// page asks for a page and checks what every page has.
func (p *playground) page(path string, status int, pairs ...string) string {
	p.t.Helper()
	a := p.want(p.browse(http.MethodGet, path, "", pairs...), status)
	body := string(a.body)
	for _, part := range []string{"<!doctype html>", `<html lang="`, `<main id="main"`, `class="skip"`, `role="status"`, "<title>", "</html>"} {
		if !strings.Contains(body, part) {
			p.t.Errorf("%s: %s is missing", path, part)
		}
	}
	if ct := a.header.Get("Content-Type"); ct != "text/html; charset=utf-8" {
		p.t.Errorf("%s is %s", path, ct)
	}
	if len(body) > 150<<10 {
		p.t.Errorf("%s weighs %d bytes", path, len(body))
	}
	for _, bad := range inlined.FindAllString(body, -1) {
		p.t.Errorf("%s: the policy forbids %q", path, bad)
	}
	return body
}

// What the Content-Security-Policy would stop, and what would leave the machine.
var inlined = regexp.MustCompile(`<[a-z]+[^>]* (?:style|on[a-z]+)="[^"]*"|<style|<script>|(?:src|href|action)="(?:https?:)?//[^"]*"`)

func TestSwitches(t *testing.T) {
	p := start(t)
	a := p.want(p.browse("POST", "/settings", "lang=zh-TW&back=%2Fchapters%2F1%3Fbus%3Dnats"), http.StatusSeeOther)
	if a.header.Get("Location") != "/chapters/1?bus=nats" {
		t.Errorf("Location %q", a.header.Get("Location"))
	}
	set := a.header.Get("Set-Cookie")
	for _, part := range []string{"lang=zh-TW", "Path=/", "HttpOnly", "SameSite=Lax"} {
		if !strings.Contains(set, part) {
			t.Errorf("%s is missing in %q", part, set)
		}
	}
	for name, tt := range map[string]struct{ form, cookie string }{
		"theme": {"theme=dark", "theme=dark"}, "auto": {"theme=auto", "theme=;"},
		"projector": {"view=projector", "projector=1"}, "screen": {"view=screen", "projector=;"},
	} {
		if a := p.want(p.browse("POST", "/settings", tt.form), 303); !strings.HasPrefix(a.header.Get("Set-Cookie")+";", tt.cookie) {
			t.Errorf("%s: %q", name, a.header.Get("Set-Cookie"))
		}
	}
	for _, form := range []string{"lang=fr", "theme=red", "view=big"} {
		if a := p.want(p.browse("POST", "/settings", form), 422); a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s sets %q", form, a.header.Get("Set-Cookie"))
		}
	}
	p.wantProblem(p.post("/settings", "theme=dark", "Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example"), 403, "cross_site")
}

func TestSwitchesLeadNowhereElse(t *testing.T) {
	p := start(t)
	for _, to := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "evil.example",
		"/\tx", "/%0d%0aSet-Cookie: a=b\r\n", "http:/evil.example", "///evil.example", ""} {
		a := p.want(p.browse("POST", "/settings", "theme=dark&back="+url.QueryEscape(to)), 303)
		if got := a.header.Get("Location"); got != "/" {
			t.Errorf("back=%q leads to %q", to, got)
		}
	}
}

func TestTheReaderIsRemembered(t *testing.T) {
	p := start(t)
	for name, tt := range map[string]struct {
		path    string
		headers []string
		has     string
	}{
		"nothing known":      {"/nowhere", nil, `<html lang="en">`},
		"the browser's":      {"/nowhere", []string{"Accept-Language", "zh-TW,en;q=0.5"}, `<html lang="zh-TW">`},
		"the cookie":         {"/nowhere", []string{"Accept-Language", "zh-TW", "Cookie", "lang=en"}, `<html lang="en">`},
		"the link":           {"/nowhere?lang=zh-TW", []string{"Cookie", "lang=en"}, `<html lang="zh-TW">`},
		"an unknown one":     {"/nowhere?lang=fr", []string{"Cookie", "lang=xx"}, `<html lang="en">`},
		"dark and projector": {"/nowhere", []string{"Cookie", "theme=dark; projector=1"}, `<html lang="en" data-theme="dark" data-view="projector">`},
		"a strange theme":    {"/nowhere", []string{"Cookie", `theme="><b>`}, `<html lang="en">`},
	} {
		if body := p.page(tt.path, 404, tt.headers...); !strings.Contains(body, tt.has) {
			t.Errorf("%s: %s is missing in %.200s", name, tt.has, body)
		}
	}
	if a := p.browse("GET", "/?lang=zh-TW", ""); !strings.HasPrefix(a.header.Get("Set-Cookie"), "lang=zh-TW") {
		t.Errorf("?lang= is not remembered: %v", a.header)
	}
}

func TestProblemsHaveAPage(t *testing.T) {
	p := start(t)
	for path, status := range map[string]int{"/nowhere": 404, "/chapters/99": 404, "/audit/event/x": 422, "/metrics?chapter=1": 422} {
		body := p.page(path, status)
		if !strings.Contains(body, "What to do") {
			t.Errorf("%s: no fix in %s", path, body)
		}
	}
	if body := p.page("/nowhere/<script>alert(1)</script>", 404); strings.Contains(body, "<script>alert") {
		t.Error("a path is written unescaped")
	}
	p.wantProblem(p.get("/nowhere"), 404, "not_found")
}

var stylesheet = regexp.MustCompile(`href="(/assets/[0-9a-f]+/style\.css)"`)

func TestAssetsAreKeptForEver(t *testing.T) {
	p := start(t)
	m := stylesheet.FindStringSubmatch(p.page("/nowhere", 404))
	if m == nil {
		t.Fatal("no style sheet")
	}
	a := p.want(p.get(m[1]), 200)
	if a.header.Get("Content-Type") != "text/css; charset=utf-8" || !strings.Contains(a.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%v", a.header)
	}
	p.wantProblem(p.get("/assets/0123/style.css"), 404, "not_found")
	p.wantProblem(p.get(strings.Replace(m[1], "style.css", "other.css", 1)), 404, "not_found")
	if a := p.want(p.get("/favicon.ico"), 200); a.header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("%v", a.header)
	}
}
