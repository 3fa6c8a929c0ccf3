package web_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/web"
)

// A run that waits has no result yet; one that has failed will have none, and says why,
// wherever a result is asked for.
func TestARunWithoutAResultSaysWhy(t *testing.T) {
	var gone atomic.Bool
	l := &web.Lab{}
	p := start(t, func(o *web.Options) { o.Lab = l })
	pool, err := pg.Open(p.db, pg.PlaygroundSchema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l.Results = pool
	l.Queue = lab.NewQueue(&lab.Lab{Chapters: p.live.Chapters(), Bus: func(name string) (lab.BusInfo, string, error) {
		if gone.Load() {
			return lab.BusInfo{}, "", errors.New("the pigeons have flown")
		}
		return lab.BusInfo{Name: name}, "", nil
	}}, pool)
	id := p.want(p.post("/runs?chapter=1&fault=rollback", ""), 202).text("id")
	paths := []string{"/audit/run/" + id, "/runs/" + id + "/export", "/compare?a=" + id + "&b=x"}
	for _, path := range paths {
		if a := p.wantProblem(p.get(path), http.StatusConflict, "run_not_finished"); a.header.Get("Retry-After") == "" || !strings.HasSuffix(a.text("detail"), "is queued") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	gone.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Queue.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	p.until("the run fails", func() bool { return p.get("/runs/"+id).text("state") == lab.Failed })
	for _, path := range paths {
		if a := p.wantProblem(p.get(path), http.StatusConflict, "run_failed"); !strings.Contains(a.text("detail"), "the pigeons have flown") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	has(t, p.page("/compare?a=x&b="+id, 404), "there is no run") // the first one that is wrong
	has(t, p.page("/compare?a="+id+"&b=x", 409), "the pigeons have flown", `href="/runs/`+id+`"`)
}
