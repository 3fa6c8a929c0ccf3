package web_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/web"
)

// lessonFiles are the texts and the code of a tiny chapter.
func lessonFiles(name string) fstest.MapFS {
	text := func(story, link string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("# 1 · T\n\n[x](README.zh-TW.md)\n\n## The story\n\n" + story + " [go](order.go) [far](../../docs/brokers.md)\n\n" +
			"## Predict\n\nHow many?\n\n## Why\n\nBecause of [" + link + "](../03-outbox/README.md#why).\n\n" +
			"## What changed since the last chapter\n\nThis.\n\n[the table](../../README.md#what-each-way-guarantees) [data](chapter.go)\n")}
	}
	return fstest.MapFS{
		"README.md": text("A story.", "three"), "README.zh-TW.md": text("一個故事。", "三"),
		"order.go":   &fstest.MapFile{Data: []byte("package " + name + "\n\nfunc f() { publish() } // the gap\n")},
		"chapter.go": &fstest.MapFile{Data: []byte("package " + name + "\n")},
	}
}

// startMeasured is start with a lab that has these results and makes no runs.
func startMeasured(t *testing.T, results ...lab.Result) *playground {
	t.Helper()
	l := &web.Lab{}
	p := start(t, func(o *web.Options) { o.Lab = l })
	pool, err := pg.Open(p.db, pg.PlaygroundSchema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l.Results, p.lab = pool, l
	l.Queue = lab.NewQueue(&lab.Lab{Chapters: p.live.Chapters(), DatabaseURL: p.db,
		Bus: func(name string) (lab.BusInfo, string, error) { return lab.BusInfo{Name: name}, "", nil }}, pool)
	for _, r := range results {
		if err := lab.Save(context.Background(), pool, r); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// lostRun is the story: 47 orders, 12 emails.
func lostRun(id string) lab.Result {
	r := lab.Result{Report: lab.Report{ID: id, Valid: audit.False, Chapter: 1, Variant: "write-first", Bus: "inmemory", Mode: "memory",
		Standard: true, Predicted: map[string]int{"delivered": 40}, Measured: audit.Verdict{Orders: 47, Delivered: 12, Lost: 35},
		Not: []string{"no-loss"}, AlsoNot: []string{"at-least-once"}, Declared: "lost 35", AsOf: time.Now(), Why: "counted <in> the tables",
		Faults:   []lab.FaultReport{{Name: "crash-after-commit", FromOrder: 13, ToOrder: 47, Hits: 35}},
		Smallest: &lab.Smallest{EventID: "0a4f9c1e-52d3-4b6e-9a3f-1c2d3e4f5a6b", Order: 13, What: "lost", Why: "publish: refused"}}}
	for i := range 47 {
		e := lab.EventTrail{Order: i + 1, Answer: "created", Trail: audit.Trail{Valid: audit.True, Verdict: audit.Verdict{Orders: 1, Delivered: 1}}}
		if i >= 12 {
			e.Trail.Valid, e.Trail.Verdict = audit.False, audit.Verdict{Orders: 1, Lost: 1}
		}
		if i == 46 { // whose process was killed
			e.Answer = "none"
		}
		r.Trails = append(r.Trails, e)
	}
	return r
}

func has(t *testing.T, body string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(body, part) {
			t.Errorf("%s is missing in a page of %d bytes", part, len(body))
		}
	}
}

func TestContentsPage(t *testing.T) {
	p := startMeasured(t, lostRun("c0ffee0001"))
	body := p.page("/", 200)
	has(t, body, `<h1>Where did the email go?</h1>`, `href="/chapters/1">Start with chapter 1`, "Two writes", "install nats-server",
		`href="/runs/c0ffee0001"`, "35 lost", "not measured here", "/play?ch=1&amp;variant=publish-first&amp;bus=inmemory&amp;fault=rollback")
	if strings.Count(body, `class="outcome is-lost"`) != 1 {
		t.Error("one cell was measured, and not one is shown as lost")
	}
	zh := p.page("/chapters", 200, "Accept-Language", "zh-TW")
	has(t, zh, `<html lang="zh-TW">`, "從第 1 章開始", "寫兩個地方", "35 遺失")
	if strings.Contains(zh, `class="fallback"`) {
		t.Error("something is not translated")
	}
	on := p.page("/", 200, "Cookie", "progress=1r3o")
	has(t, on, "Go on with chapter 3", "measured</span>", "opened</span>")
	has(t, p.page("/", 200, "Cookie", "progress=1r3r6r"), "You have run an experiment in every chapter")
	has(t, p.page("/", 200, "Cookie", "progress=rr<>99999999999999999999r1"), "Start with chapter 1")
}

func TestChapterPage(t *testing.T) {
	p := startMeasured(t)
	a := p.want(p.browse("GET", "/chapters/1", ""), 200)
	if set := a.header.Get("Set-Cookie"); !strings.HasPrefix(set, "progress=1o;") {
		t.Errorf("progress: %q", set)
	}
	body := p.page("/chapters/1", 200)
	has(t, body, `<h2 id="the-story">`, "A story.", `href="#file-order.go"`, " far", `href="/chapters/3#why"`, `href="/audit/guarantees"`,
		`href="/chapters/1/files/chapter.go"`, `id="order.go-L3"`, `class="line marked"`, `name="predict"`, `class="skip" href="#prediction"`, " required",
		`<form id="experiment" class="card" method="post" action="/runs"`, "go run ./chapters run 1 --variant write-first --bus inmemory --fault crash-after-commit --orders 47",
		`runs?bus=inmemory&amp;chapter=1&amp;fault=crash-after-commit&amp;orders=47&amp;variant=write-first`,
		`<details id="rest" class="rest">`, `<a href="/chapters/3" rel="next">`)
	if strings.Contains(body, "docs/brokers.md") || strings.Contains(body, `class="came"`) {
		t.Error("a link that leads nowhere, or a diff of the first chapter")
	}
	zh := p.page("/chapters/3?lang=zh-TW&bus=inmemory&fault=rollback&orders=20&seed=7", 200)
	has(t, zh, "一個故事。", `<h2 id="the-story">`, `class="line came"`, `class="line went"`, `value="20"`, `value="7"`, "--fault rollback --orders 20 --seed 7",
		`action="/demo/chaos/pause-outbox"`, "自己動手")
	has(t, p.page("/chapters/6", 200), "By hand") // it has no files at all
	for query, status := range map[string]int{"bus=x": 400, "variant=x": 400, "fault=x": 422, "orders=0": 422, "orders=2001": 422, "run=x": 404} {
		p.page("/chapters/1?"+query, status)
	}
	if a := p.want(p.get("/chapters/1"), 200); a.text("slug") != "naive" || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a program gets %s", a.body)
	}
}

func TestChapterPageWithARun(t *testing.T) {
	p := startMeasured(t, lostRun("c0ffee0002"))
	body := p.page("/chapters/1?run=c0ffee0002", 200)
	has(t, body, `data-state="done"`, "<strong>40</strong>", "<strong>12</strong>", "12 delivered", "35 lost", "28 too many", "Answered 201 all the same: 34.", `href="/chapters/1?variant=publish-first&amp;bus=inmemory&amp;fault=crash-after-commit"`, `href="/chapters/3?variant=plain&amp;bus=inmemory&amp;fault=crash-after-commit"`, "This result is the lesson",
		">35 customers have an order and no email</h2>", "crash-after-commit: orders 13 to 47, 35 hits.", "lost 35", `href="/audit/event/0a4f9c1e-52d3-4b6e-9a3f-1c2d3e4f5a6b"`, "publish", `<details id="rest" class="rest" open>`, "counted &lt;in&gt; the tables")
	if n := strings.Count(body, `href="#s-lost"`); n != 35 {
		t.Errorf("%d losses are drawn", n)
	}
	if strings.Contains(body, " autofocus") || strings.Contains(body, `http-equiv="refresh"`) {
		t.Error("the verdict is there, and the page looks elsewhere")
	}
	other := lostRun("c0ffee0003")
	other.Report.Declared, other.Report.Valid = "ok", audit.False
	other.Report.Predicted = nil
	p2 := startMeasured(t, other)
	body = p2.page("/chapters/1?run=c0ffee0003", 200)
	has(t, body, "This is not what the chapter declares", "35 lost, none declared")
	if strings.Contains(body, "This result is the lesson") || strings.Contains(body, "You predicted") {
		t.Error("a finding is called a lesson, or a prediction is made up")
	}
}

// A run is asked for with a form, and its page looks again by itself.
func TestARunFromAForm(t *testing.T) {
	p := startMeasured(t)
	const form = "chapter=1&fault=rollback&variant=write-first&bus=inmemory&orders=20&seed=&predict=20"
	a := p.want(p.browse("POST", "/runs", form), http.StatusSeeOther)
	if set := a.header.Get("Set-Cookie"); !strings.HasPrefix(set, "progress=1r;") {
		t.Errorf("progress: %q", set)
	}
	to := a.header.Get("Location")
	if !strings.HasPrefix(to, "/runs/") {
		t.Fatalf("Location %q", to)
	}
	has(t, p.page("/chapters/1?run="+strings.TrimPrefix(to, "/runs/"), 200), `data-state="queued"`, `<noscript><meta http-equiv="refresh"`, "<progress ", `value="20"`)
	p.want(p.browse("POST", "/runs", "chapter=1&predict="), http.StatusSeeOther) // I don't know
	has(t, p.page2(p.browse("POST", "/runs", "chapter=1&fault=broker-down&bus=inmemory"), 422), "does not apply", "What to do")
	has(t, p.page2(p.browse("POST", "/runs", "chapter=1&predict=x"), 422), "whole number")
	if a := p.want(p.post("/runs", form[:strings.Index(form, "&seed")], "Content-Type", "application/x-www-form-urlencoded"), 202); a.header.Get("Set-Cookie") != "" {
		t.Error("a program is given a cookie")
	}
	p.wantProblem(p.post("/runs", "chapter=1&predict=", "Content-Type", "application/x-www-form-urlencoded"), 422, "invalid_input")
}

// page2 checks that an answer is a page.
func (p *playground) page2(a answer, status int) string {
	p.t.Helper()
	p.want(a, status)
	if ct := a.header.Get("Content-Type"); ct != "text/html; charset=utf-8" {
		p.t.Errorf("a browser gets %s", ct)
	}
	return string(a.body)
}

func TestPlay(t *testing.T) {
	p := startMeasured(t)
	a := p.want(p.get("/play?ch=1&bus=inmemory&n=20&fault=rollback&seed=7&variant=publish-first"), 200)
	if a.text("spec.chapter") != "1" || a.text("spec.orders") != "20" || a.text("spec.seed") != "7" || a.text("spec.variant") != "publish-first" {
		t.Errorf("%s", a.body)
	}
	has(t, string(a.body), "predict=N", "--seed 7 --predict N", "/play?ch=1&variant=publish-first&bus=inmemory&fault=rollback&n=20&seed=7")
	body := p.page("/play?ch=3&n=10&fault=rollback", 200)
	has(t, body, "comes from a link and has not been run yet", `value="10"`, `<option value="rollback"`, " selected")
	if got := string(p.want(p.get("/play.txt"), 200).body); !strings.Contains(got, "chapter   1 write-first") {
		t.Error(got)
	}
	for query, code := range map[string]string{"ch=99": "unknown_chapter", "n=x": "invalid_input", "n=0": "invalid_input", "fault=x": "invalid_input", "bus=x": "unknown_bus"} {
		if a := p.get("/play?" + query); a.text("code") != code {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	runs := 0
	if err := p.live.DB(1).QueryRow(context.Background(), `SELECT count(*) FROM playground.runs`).Scan(&runs); err != nil || runs != 0 {
		t.Errorf("%d runs were made: %v", runs, err)
	}
}

func TestChapterFiles(t *testing.T) {
	p := start(t)
	if a := p.want(p.get("/chapters/1/files/order.go"), 200); !strings.HasPrefix(string(a.body), "package naive") {
		t.Errorf("%s", a.body)
	}
	has(t, p.page("/chapters/1/files/order.go", 200), `id="order.go-L3"`, `class="line marked"`)
	for _, path := range []string{"/chapters/1/files/other.go", "/chapters/1/files/..", "/chapters/1/files/..%2forder.go", "/chapters/6/files/order.go", "/chapters/9/files/order.go"} {
		if a := p.get(path); a.status != 404 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// Everything that can be done by hand can be done with a form alone.
func TestByHandWithoutScripts(t *testing.T) {
	p := start(t)
	from := []string{"Referer", p.url + "/chapters/3?bus=inmemory"}
	to := func(a answer, where string) {
		t.Helper()
		if p.want(a, http.StatusSeeOther); !strings.HasPrefix(a.header.Get("Location"), where) {
			t.Errorf("Location %q, want %q", a.header.Get("Location"), where)
		}
	}
	to(p.browse("POST", "/demo/chaos/pause-outbox", "chapter=3", from...), "/chapters/3?bus=inmemory")
	has(t, p.page("/chapters/3", 200), "The worker is paused.", `action="/demo/chaos/resume-outbox"`)
	to(p.browse("POST", "/chapters/3/orders", "user_id=u1&items=A%2CB&bus=inmemory", from...), "/audit/event/")
	has(t, p.page("/chapters/3", 200), "1 pending")
	to(p.browse("POST", "/chapters/3/orders", "user_id=u1&items=A&fail=1", from...), "/audit/event/")
	to(p.browse("POST", "/demo/chaos/resume-outbox", "chapter=3", "Referer", "https://evil.example/chapters/3"), "/chapters/3")
	const fail = `INSERT INTO outbox (event_id, bus, payload, status, attempts, last_error)
		VALUES (gen_random_uuid(), 'nats', '{}', 'failed', 5, 'it <b>broke</b>') RETURNING id`
	var id int
	if err := p.live.DB(3).QueryRow(context.Background(), fail).Scan(&id); err != nil {
		t.Fatal(err)
	}
	has(t, p.page("/chapters/3", 200), "it &lt;b&gt;broke", fmt.Sprintf(`action="/admin/outbox/%d/retry"`, id), `action="/admin/outbox/retry"`)
	to(p.browse("POST", fmt.Sprintf("/admin/outbox/%d/retry", id), "chapter=3", from...), "/chapters/3")
	to(p.browse("POST", "/admin/outbox/retry", "chapter=3"), "/chapters/3")
	has(t, p.page2(p.browse("POST", "/admin/outbox/999999/retry", "chapter=3"), 404), "What to do")
	has(t, p.page2(p.browse("POST", "/demo/chaos/broker/inmemory", "seconds=5"), 422), "What to do")
}
