package web_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"outboxplayground/core/lab"
	"outboxplayground/core/web"
)

func TestEveryReadHasATextFace(t *testing.T) {
	p := start(t)
	id := p.want(p.post(place, anOrder), 201).text("event_id")
	p.delivered(id)
	for path, says := range map[string]string{
		"/": "/demo/place-order", "/audit/event/" + id: "✓ delivered", "/metrics": "outbox of chapter 3",
		"/admin/outbox/failed": "no failed rows", "/chapters": "寄件匣", "/chapters/1": "publish-first",
		"/buses": "nats", "/healthz": "ok", "/readyz": "ready",
	} {
		suffixed := p.want(p.get(path+".txt"), 200)
		accepted := p.want(p.get(path, "Accept", "text/plain"), 200)
		for how, a := range map[string]answer{".txt": suffixed, "Accept": accepted} {
			if ct := a.header.Get("Content-Type"); ct != "text/plain; charset=utf-8" || !strings.Contains(string(a.body), says) {
				t.Errorf("%s %s: %s, without %q:\n%s", path, how, ct, says, a.body)
			}
		}
		if a := p.want(p.get(path), 200); a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s by default", path, a.header.Get("Content-Type"))
		}
		if a := p.want(p.call(http.MethodHead, path, ""), 200); len(a.body) != 0 {
			t.Errorf("HEAD %s has a body", path)
		}
	}
	if a := p.want(p.post(place+".txt", anOrder), 201); !strings.Contains(string(a.body), "status    committed") {
		t.Errorf("%s", a.body)
	}
	p.wantProblem(p.get("/nowhere.txt"), 404, "not_found")
}

func TestAccept(t *testing.T) {
	p := start(t)
	for accept, want := range map[string]string{
		"":                             "application/json",
		"*/*":                          "application/json",
		"application/json":             "application/json",
		"text/html":                    "text/html; charset=utf-8",
		"text/plain":                   "text/plain; charset=utf-8",
		"text/plain;q=0.5, */*;q=0.1":  "text/plain; charset=utf-8",
		"application/json, text/plain": "application/json", // the first of equals
		"text/plain;q=0.1, */*":        "application/json",
		"text/plain;version=0.0.4":     "text/plain; version=0.0.4",
		"application/openmetrics-text": "application/openmetrics-text",
		"nonsense/;;q=x, text/plain":   "text/plain; charset=utf-8",
		"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1": "application/openmetrics-text",
	} {
		a := p.want(p.get("/metrics", "Accept", accept), 200)
		if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("Accept %q gets %q, want %q", accept, got, want)
		}
	}
	if a := p.want(p.get("/", "Accept", "text/html,*/*;q=0.8"), 200); !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") ||
		!strings.Contains(string(a.body), "<h1>Where did the email go?</h1>") {
		t.Errorf("a browser gets %s", a.body)
	}
	problemsForScripts(t, p)
}

// problemsForScripts: the scripts of the pages want JSON, and problems for a reader; who names JSON alone, or
// everything, gets problems as JSON.
func problemsForScripts(t *testing.T, p *playground) {
	t.Helper()
	for accept, want := range map[string]struct{ problem, chapter string }{
		"application/json, text/html;q=0.5": {"text/html", "application/json"},
		"application/json":                  {"application/problem+json", "application/json"},
		"":                                  {"application/problem+json", "application/json"},
		"*/*":                               {"application/problem+json", "application/json"},
		"application/json, text/html;q=0.5, */*;q=0.1":                      {"application/problem+json", "application/json"},
		"application/json, text/html;q=0.5, application/*;q=0.1":            {"application/problem+json", "application/json"},
		"application/json, application/problem+json, text/html;q=0.5":       {"application/problem+json", "application/json"},
		"text/plain, text/html;q=0.5":                                       {"application/problem+json", "text/plain"},
		"text/html, application/json;q=0.9, application/problem+json;q=0.9": {"text/html", "text/html"},
	} {
		a := p.want(p.get("/chapters/99", "Accept", accept, "Accept-Language", "zh-TW"), 404)
		if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, want.problem) || strings.Contains(string(a.body), "沒有「99」這一章") != (want.problem == "text/html") {
			t.Errorf("Accept %q: a problem is %s: %s", accept, got, a.body)
		}
		if got := p.want(p.get("/chapters/1", "Accept", accept), 200).header.Get("Content-Type"); !strings.HasPrefix(got, want.chapter) {
			t.Errorf("Accept %q: a chapter is %s", accept, got)
		}
	}
}

func TestPrometheus(t *testing.T) {
	p := start(t)
	p.post("/demo/chaos/pause-outbox", "")
	p.want(p.post(place, anOrder), 201)
	scraped := string(p.want(p.get("/metrics", "Accept", "text/plain;version=0.0.4"), 200).body)
	for _, line := range []string{
		`outbox_rows{bus="inmemory",chapter="3",status="pending"} 1`, `outbox_rows{bus="nats",chapter="3",status="failed"} 0`,
		`outbox_paused{chapter="3"} 1`, `outbox_oldest_pending_lag_seconds{bus="inmemory",chapter="3"} `,
	} {
		if !strings.Contains(scraped, line) {
			t.Errorf("%s is missing in\n%s", line, scraped)
		}
	}
	if strings.Contains(scraped, `lag_seconds{bus="nats"`) {
		t.Error("a bus without a pending row has a lag")
	}
}

func TestRaceIsHandedOnAndOneAtATime(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	p := start(t, func(o *web.Options) {
		o.Race = func(_ context.Context, count int, busName string) (web.RaceResult, error) {
			switch {
			case busName != "inmemory":
				return web.RaceResult{}, errors.New("wrong bus")
			case count == 48:
				return web.RaceResult{}, lab.ErrNotApplicable
			}
			close(began)
			<-end
			return web.RaceResult{AsOf: time.Now(), Naive: web.RaceSide{Orders: count, Lost: 35}, Outbox: web.RaceSide{Delivered: 47}}, nil
		}
	})
	first := make(chan answer, 1)
	go func() { first <- p.get("/demo/race-naive-vs-outbox") }()
	<-began
	busy := p.wantProblem(p.post("/demo/race-naive-vs-outbox?count=1", ""), http.StatusTooManyRequests, "race_running")
	if busy.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(end)
	a := p.want(<-first, 200)
	if a.text("naive.orders") != "47" || a.text("naive.lost") != "35" || a.text("outbox.delivered") != "47" || a.text("bus") != "inmemory" {
		t.Errorf("%s", a.body)
	}
	p.wantProblem(p.post("/demo/race-naive-vs-outbox", `{"count":48}`), 422, "no_race")
}

func TestNoRaceHere(t *testing.T) {
	p := start(t)
	p.wantProblem(p.get("/demo/race-naive-vs-outbox"), 503, "race_unavailable")
}

// A fault inside must not tell a stranger anything; the log has it.
func TestAFaultInsideTellsNothing(t *testing.T) {
	var log bytes.Buffer
	p := start(t, func(o *web.Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Race = func(_ context.Context, count int, _ string) (web.RaceResult, error) {
			if count == 1 {
				panic("secret panic")
			}
			return web.RaceResult{}, errors.New("secret error")
		}
	})
	for _, count := range []string{"1", "2", "1"} { // the third: a panic gave the token back
		a := p.wantProblem(p.get("/demo/race-naive-vs-outbox?count="+count), http.StatusInternalServerError, "internal")
		if strings.Contains(string(a.body), "secret") {
			t.Errorf("the answer tells the inside: %s", a.body)
		}
	}
	if !strings.Contains(log.String(), "secret panic") || !strings.Contains(log.String(), "secret error") {
		t.Errorf("the log does not have it:\n%s", log.String())
	}
}

func TestBusesAndChapters(t *testing.T) {
	p := start(t)
	a := p.want(p.get("/buses"), 200)
	for _, part := range []string{`"name": "inmemory"`, `"mode": "memory"`, `"fix": "install nats-server"`, `"default": true`} {
		if !strings.Contains(string(a.body), part) {
			t.Errorf("%s is missing: %s", part, a.body)
		}
	}
	if a := p.want(p.get("/chapters/1"), 200); a.text("slug") != "naive" || a.value("outbox") != false {
		t.Errorf("%s", a.body)
	}
	p.wantProblem(p.get("/chapters/2"), 404, "unknown_chapter")
	if a := p.want(p.get("/readyz"), 200); a.text("postgres") != "ready" {
		t.Errorf("%s", a.body)
	}
	// From chapter 3 on an order does not wait for its bus; the audit says so.
	late := p.want(p.post(place+"?bus=kafka", anOrder), 201)
	if trail := p.get("/audit/event/" + late.text("event_id")); trail.value("valid") != "unknown" || trail.text("outbox.status") != "pending" {
		t.Errorf("%s", trail.body)
	}
}
