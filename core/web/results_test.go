package web_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/web"
)

// later is a pool that is opened after the handler was made.
type later struct{ *pgxpool.Pool }

func (l *later) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return l.Pool.Query(ctx, sql, args...)
}

func (l *later) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return l.Pool.Exec(ctx, sql, args...)
}

// startWithResults runs a playground whose lab makes no runs: its queue has no worker.
// What it shows is stored by the test.
func startWithResults(t *testing.T, claims ...lab.Claim) (*playground, *later) {
	t.Helper()
	db := &later{}
	p := start(t, func(o *web.Options) {
		o.Lab = &web.Lab{Results: db, Queue: lab.NewQueue(&lab.Lab{Chapters: []lab.Chapter{naiveChapter(nil, nil), outboxChapter()},
			Bus: func(string) (lab.BusInfo, string, error) { return lab.BusInfo{Mode: "memory"}, "", nil }}, db)}
		o.Claims = claims
	})
	pool, err := pg.Open(p.db, pg.PlaygroundSchema, pg.Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db.Pool = pool
	return p, db
}

// storyResult is the article's night in chapter 1 on the bus in memory: n orders, of
// which the first twelve have an email.
func storyResult(id string, n int) lab.Result {
	at := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	r := lab.Report{ID: id, Valid: audit.False, Chapter: 1, Variant: "write-first", Bus: "inmemory", Mode: "memory", Standard: n == 47,
		Predicted: map[string]int{"delivered": n}, Measured: audit.Verdict{Orders: n, Delivered: 12, Lost: n - 12},
		Not: []string{"no-loss"}, AlsoNot: []string{"at-least-once"}, Declared: "lost", AsOf: at.Add(time.Minute), Why: "counted",
		Faults: []lab.FaultReport{{Name: "crash-after-commit", FromOrder: 13, ToOrder: n, Hits: n - 12}},
		Broken: []lab.Stretch{{What: "SIGKILL", Where: lab.Producing, Begin: at.Add(time.Millisecond), End: at.Add(time.Second)}}}
	res := lab.Result{Report: r}
	for i := range n {
		e := lab.EventTrail{Order: i + 1, Answer: "created", Trail: audit.None(1, "inmemory", eventID(id, i))}
		e.Trail.Order = &audit.Order{ID: int64(i), UserID: "u<1>", Bus: "inmemory", CreatedAt: at}
		e.Trail.Verdict = audit.Verdict{Orders: 1, Delivered: 1}
		if i >= 12 {
			e.Trail.Verdict = audit.Verdict{Orders: 1, Lost: 1}
			e.Trail.Valid = audit.False
		}
		for ms, step := range []string{"order", "before-commit", "after-commit"} {
			label := "producer"
			if ms == 0 {
				label = "client"
			}
			e.Timeline = append(e.Timeline, lab.Line{At: at.Add(time.Duration(2*ms) * time.Millisecond), Label: label, Step: step, EventID: e.Trail.EventID})
		}
		res.Trails = append(res.Trails, e)
	}
	if n > 12 {
		res.Report.Smallest = &lab.Smallest{EventID: eventID(id, 12), Order: 13, What: "lost", Why: "killed", Trail: "/audit/event/" + eventID(id, 12)}
	}
	return res
}

// eventID makes the id of an event of a run.
func eventID(run string, i int) string { return fmt.Sprintf("%s-0000-4000-8000-%012d", run[:8], i) }

func save(t *testing.T, db *later, results ...lab.Result) {
	t.Helper()
	for _, r := range results {
		if err := lab.Save(t.Context(), db, r); err != nil {
			t.Fatal(err)
		}
	}
}

// shows fails for every part that a page lacks.
func shows(t *testing.T, what, body string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(body, part) {
			t.Errorf("%s: %q is missing", what, part)
		}
	}
}

func TestResultPages(t *testing.T) {
	judge := func(r []lab.Report) lab.Holds {
		if r[0].Measured.Lost > 0 {
			return lab.Yes
		}
		return lab.No
	}
	p, db := startWithResults(t,
		lab.Claim{ID: "loses", Section: "§1", Text: lab.Text{En: "It loses events.", ZhTW: "它會掉 event。"}, Judge: judge,
			Cells: []lab.Cell{{Chapter: 1, Variant: "write-first", Fault: "crash-after-commit"}}},
		lab.Claim{ID: "open", Section: "§5", Text: lab.Text{En: "It is fast.", ZhTW: "它很快。"}, How: lab.Text{En: "Nobody knows.", ZhTW: "沒有人知道。"}},
		lab.Claim{ID: "small", Section: "§5", Text: lab.Text{En: "One is one.", ZhTW: "一就是一。"}, Measure: func(context.Context) (lab.Finding, error) {
			return lab.Finding{Holds: lab.Yes, Said: lab.Text{En: "1 = 1", ZhTW: "1 = 1"}, AsOf: time.Now()}, nil
		}})
	save(t, db, storyResult("aaaaaaaaaa", 47), storyResult("bbbbbbbbbb", 2000), storyResult("cccccccccc", 12))

	t.Run("run", func(t *testing.T) { runPages(t, p) })
	t.Run("export", func(t *testing.T) { exported(t, p) })
	t.Run("event", func(t *testing.T) {
		body := p.page("/audit/event/"+eventID("aaaaaaaaaa", 12), 200)
		shows(t, "event", body, `class="tl-step`, `href="/runs/aaaaaaaaaa"`, "u&lt;1&gt;", "lost", `data-step="2"`)
		id := p.want(p.post(place+"?bus=kafka", anOrder), 201).text("event_id")
		if live := p.page("/audit/event/"+id, 200); strings.Contains(live, "tl-step") || !strings.Contains(live, "pending") {
			t.Error("an order placed by hand has a timeline of a run, or is not pending")
		}
	})
	t.Run("compare", func(t *testing.T) { compared(t, p) })
	t.Run("guarantees", func(t *testing.T) { guaranteePages(t, p) })
	t.Run("claims", func(t *testing.T) { claimPages(t, p) })
	t.Run("others", func(t *testing.T) {
		shows(t, "runs", p.page("/runs", 200), `value="aaaaaaaaaa"`, `value="bbbbbbbbbb"`, "1988 lost")
		shows(t, "buses", p.page("/buses", 200), "inmemory", "install nats-server", "Nothing is kept")
		shows(t, "metrics", p.page("/metrics", 200), "Pending rows: 1", "/demo/chaos/pause-outbox")
		shows(t, "failed", p.page("/admin/outbox/failed?bus=&error=", 200), "No failed rows")
		shows(t, "letters", p.page("/admin/dead-letters", 200), "No dead letters")
		for _, path := range []string{"/runs", "/buses", "/metrics", "/claims", "/compare", "/audit/guarantees", "/runs/aaaaaaaaaa"} {
			shows(t, path, p.page(path+"?lang=zh-TW", 200), `<html lang="zh-TW">`)
			if strings.Contains(p.page(path+"?lang=zh-TW", 200), `class="fallback"`) {
				t.Errorf("%s is not wholly translated", path)
			}
		}
	})
}

func runPages(t *testing.T, p *playground) {
	body := p.page("/runs/aaaaaaaaaa", 200)
	shows(t, "run", body, "35", `class="tl-step`, "tl-down", "tl-list", `href="/play?`, `action="/runs"`, `href="/compare?a=aaaaaaaaaa"`,
		`href="/runs/aaaaaaaaaa/export"`, "This result is the lesson")
	if n := strings.Count(body, `href="/audit/event/`+"aaaaaaaa-0000"); n < 47 {
		t.Errorf("%d links to events", n)
	}
	shows(t, "short link", p.page("/r/aaaaaaaaaa", 200), "aaaaaaaaaa")
	p.page("/r/unknown000", 404)
	long := p.page("/runs/bbbbbbbbbb", 200) // within the 150 KB of page
	shows(t, "2,000 orders", long, `href="/runs/bbbbbbbbbb?events=20#events"`, `class="bars"`)
	last := p.page("/runs/bbbbbbbbbb?events=20", 200)
	shows(t, "the last page", last, eventID("bbbbbbbbbb", 1999))
	if strings.Contains(last, eventID("bbbbbbbbbb", 50)+`"`) {
		t.Error("the last page lists the first events")
	}
	p.page("/runs/bbbbbbbbbb?events=99999", 200)
	a := p.want(p.browse(http.MethodPost, "/runs", "chapter=1&bus=inmemory&fault=none"), http.StatusSeeOther)
	shows(t, "a waiting run", p.page(a.header.Get("Location"), 200), `data-state="queued"`, `http-equiv="refresh"`)
}

// external is anything that a browser would fetch when it opens the file.
var external = regexp.MustCompile(`(?:src|href)="(?:/|https?:)[^"]*\.(?:css|js|svg|png)|<link|@import|url\(h`)

func exported(t *testing.T, p *playground) {
	a := p.want(p.browse(http.MethodGet, "/runs/aaaaaaaaaa/export", ""), 200)
	body := string(a.body)
	shows(t, "export", body, "<style>", ".tl-mark", "ArrowRight", `class="button" href="#shown"`, `id="shown"`, `class="tl-step`, `href="`+p.url+`/audit/event/`, "&#34;smallest&#34;")
	if !strings.Contains(a.header.Get("Content-Disposition"), "run-aaaaaaaaaa.html") {
		t.Errorf("Content-Disposition %q", a.header.Get("Content-Disposition"))
	}
	if found := external.FindString(body); found != "" || strings.Contains(body, "<form") {
		t.Errorf("the file asks for %q, or has a form", found)
	}
	if dir := os.Getenv("KEEP_EXPORT"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "export.html"), a.body, 0o600); err != nil {
			t.Error(err)
		}
	}
	p.wantProblem(p.get("/runs/unknown000/export"), 404, "run_unknown")
}

func compared(t *testing.T, p *playground) {
	a := p.want(p.get("/compare?a=aaaaaaaaaa&b=cccccccccc"), 200)
	var different []string
	for _, row := range a.value("rows").([]any) {
		if r := row.(map[string]any); r["same"] == false {
			different = append(different, r["field"].(string))
		}
	}
	if got := strings.Join(different, " "); got != "hits orders lost" {
		t.Errorf("different are %q", got)
	}
	shows(t, "compare", p.page("/compare?a=aaaaaaaaaa&b=cccccccccc", 200), `class="bars"`, "is-different", `id="a-t-aaaaaaaa-1"`, `id="b-t-cccccccc-1"`)
	shows(t, "the same twice", p.page("/compare?a=aaaaaaaaaa&b=aaaaaaaaaa", 200), "differ: 0")
	shows(t, "one chosen", p.page("/compare?a=cccccccccc", 200), `<option value="cccccccccc" selected>`)
	p.wantProblem(p.get("/compare?a=aaaaaaaaaa"), 422, "invalid_input")
	p.wantProblem(p.get("/compare?a=aaaaaaaaaa&b=unknown000"), 404, "run_unknown")
	shows(t, "text", string(p.want(p.get("/compare.txt?a=aaaaaaaaaa&b=cccccccccc"), 200).body), "lost", "≠")
}

func guaranteePages(t *testing.T, p *playground) {
	body := p.page("/audit/guarantees?bus=inmemory", 200)
	shows(t, "guarantees", body, `href="/runs/aaaaaaaaaa"`, "= lost", `value="1.publish-first.inmemory.none"`, "Measured here: 1.")
	shows(t, "of a chapter", p.page("/audit/guarantees?chapter=1", 200), `>inmemory</th>`, `>nats</th>`, "<h2>write-first</h2>")
	p.page("/audit/guarantees?chapter=1&fault=zombie-relay", 200) // of which there is no cell
	one := p.want(p.post("/audit/guarantees?cell=1.write-first.inmemory.crash-after-commit", ""), 202)
	if len(one.value("runs").([]any)) != 1 || one.text("left") != "0" {
		t.Errorf("%s", one.body)
	}
	shows(t, "a cell that waits", p.page("/audit/guarantees?bus=inmemory", 200), "Being measured: 2.")
	p.wantProblem(p.post("/audit/guarantees?cell=9.x.y.z", ""), 422, "invalid_input")
	p.wantProblem(p.post("/audit/guarantees?before=yesterday", ""), 422, "invalid_input")
	all := p.want(p.post("/audit/guarantees?chapter=1", ""), 202)
	if left := all.value("left").(float64); left == 0 || len(all.value("runs").([]any)) == 0 {
		t.Errorf("the queue of %d took everything: %s", lab.QueueLength, all.body)
	}
	full := p.wantProblem(p.post("/audit/guarantees?chapter=1", ""), 429, "queue_full")
	if full.header.Get("Retry-After") == "" {
		t.Error("a full queue does not say when to come back")
	}
}

func claimPages(t *testing.T, p *playground) {
	a := p.want(p.get("/claims"), 200)
	for i, want := range []string{"confirmed", "unmeasured", "unmeasured"} {
		if got := a.value("claims").([]any)[i].(map[string]any)["standing"]; got != want {
			t.Errorf("claim %d is %v, want %s", i, got, want)
		}
	}
	shows(t, "claims", p.page("/claims", 200), "confirmed: 1", `href="/runs/aaaaaaaaaa"`, `action="/claims/loses"`, "Nobody knows.")
	p.want(p.post("/claims/small", ""), 200)
	if b := p.want(p.get("/claims"), 200); !strings.Contains(string(b.body), `"en": "1 = 1"`) {
		t.Errorf("the measurement is not kept: %s", b.body)
	}
	p.wantProblem(p.post("/claims/open", ""), 422, "not_measurable")
	p.wantProblem(p.post("/claims/nothing", ""), 404, "claim_unknown")
	p.wantProblem(p.post("/claims/loses?bus=pigeon", ""), 400, "unknown_bus")
	p.wantProblem(p.post("/claims/loses", ""), 429, "queue_full")
}

func TestMetricsShowHowTheFiguresMoved(t *testing.T) {
	p := start(t)
	if body := p.page("/metrics", 200); strings.Contains(body, `class="chart"`) {
		t.Error("there is a chart before anything was sampled")
	}
	p.want(p.post("/demo/chaos/pause-outbox", ""), 200)
	p.want(p.post(place, anOrder), 201)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.sampler.Run(ctx); close(ended) }()
	p.until("two samples are there", func() bool { return strings.Contains(p.page("/metrics", 200), `class="chart"`) })
	body := p.page("/metrics", 200)
	shows(t, "metrics", body, `id="chart-pending-title"`, `id="chart-lag-title"`, `id="chart-rate-title"`, "The worker is paused.",
		"inmemory: from 1 to 1, newest 1.", "<td>1</td>")
	cancel()
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Error("the sampler does not end with its context")
	}
}
