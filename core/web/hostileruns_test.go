package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/lab"
	"outboxplayground/core/web"
)

// Measurements of time come one at a time, and a stop does not leave one behind: what
// it has made would stay.
func TestAMeasurementIsAloneAndEndsWithTheProcess(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	stopping := make(chan struct{})
	slow := lab.Claim{ID: "slow", Measure: func(ctx context.Context) (lab.Finding, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return lab.Finding{}, ctx.Err()
	}}
	quick := lab.Claim{ID: "quick", Measure: func(context.Context) (lab.Finding, error) { return lab.Finding{Holds: lab.Yes}, nil }}
	p := start(t, func(o *web.Options) {
		o.Lab, o.Stopping, o.Claims = &web.Lab{}, stopping, []lab.Claim{slow, quick}
	})
	answered := make(chan answer, 1)
	go func() { answered <- p.post("/claims/slow", "") }()
	<-begun
	for _, id := range []string{"slow", "quick"} {
		if a := p.wantProblem(p.post("/claims/"+id, ""), http.StatusTooManyRequests, "being_measured"); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	close(stopping)
	if err := <-ended; err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
	p.wantProblem(<-answered, http.StatusServiceUnavailable, "not_measured")
	p.want(p.post("/claims/quick", ""), 200)
}

// A transaction that is called as one of the chapter's and names no event is nobody's
// business here.
func TestAPreparedTransactionOfSomebodyElseIsLeftAlone(t *testing.T) {
	p, ctx := startDoubtful(t, time.Nanosecond), t.Context()
	db, err := pgx.Connect(ctx, p.db)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	for _, name := range []string{"ch09.ch09.y", "ch09.it''s"} {
		for _, sql := range []string{"BEGIN", "PREPARE TRANSACTION '" + name + "'"} {
			if _, err := db.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range []string{"ch09.ch09.y", "it's"} {
		p.wantProblem(p.post("/admin/prepared/"+id+"/rollback", ""), http.StatusConflict, "not_in_doubt")
	}
	if a := p.want(p.get("/admin/prepared"), 200); len(a.value("prepared").([]any)) != 2 || strings.Contains(string(a.body), "curl") {
		t.Errorf("%s", a.body)
	}
}

// The command line takes any seed, and a page leads from its result to the form.
func TestTheLargestSeedIsTaken(t *testing.T) {
	p := start(t)
	a := p.want(p.get("/play?ch=1&seed=18446744073709551615"), 200)
	if !strings.Contains(string(a.body), "--seed 18446744073709551615") || !strings.Contains(string(a.body), "seed=18446744073709551615") {
		t.Errorf("%s", a.body)
	}
	p.wantProblem(p.get("/play?ch=1&seed=18446744073709551616"), http.StatusUnprocessableEntity, "invalid_input")
}

// A run that waits is there, though it has no result to be exported.
func TestAnUnfinishedRunIsNotExportedAndNotUnknown(t *testing.T) {
	p, _ := startWithResults(t) // its queue does not work
	id := p.want(p.post("/runs?chapter=1&bus=inmemory&fault=none&orders=3", ""), 202).text("id")
	if a := p.wantProblem(p.get("/runs/"+id+"/export"), http.StatusConflict, "run_not_finished"); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
