package web_test

import (
	"context"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/pg/pgtest"
	"outboxplayground/infra/servers/servertest"
)

func TestWhyAnOrderIsRefused(t *testing.T) {
	p := start(t)
	for variant, code := range map[string]string{
		"commit-unknown": "commit_unknown", "bus-down": "bus_unavailable", "bus-refuses": "bus_rejected",
		"ambiguous": "order_refused", "database-gone": "database_unavailable",
	} {
		a := p.wantProblem(p.post("/chapters/1/orders?variant="+variant, anOrder), http.StatusServiceUnavailable, code)
		if uuid.Validate(a.text("event_id")) != nil {
			t.Errorf("%s: no event_id to ask the audit for: %s", variant, a.body)
		}
		if asks := strings.Contains(string(a.body), "/audit/event/"+a.text("event_id")); asks != (variant == "commit-unknown") {
			t.Errorf("%s: next is wrong: %s", variant, a.body)
		}
	}
}

// The database is there when the playground starts and gone later: every call that
// needs it says so, and the ones that do not go on.
func TestWithoutTheDatabase(t *testing.T) {
	p := start(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, servertest.URL(t, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	name := path.Base(p.live.DB(1).Config().ConnConfig.Database)
	for _, sql := range []string{
		"ALTER DATABASE " + name + " ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range []string{
		"POST /demo/place-order?user_id=u1&items=A", "POST /chapters/1/orders?user_id=u1&items=A", "GET /metrics",
		"GET /audit/event/" + uuid.NewString(), "GET /admin/outbox/failed", "POST /admin/outbox/1/retry",
		"POST /demo/chaos/pause-outbox", "GET /readyz", "POST /admin/outbox/retry",
		"GET /admin/dead-letters", "POST /admin/dead-letters/1/replay", "POST /admin/dead-letters/replay",
	} {
		method, path, _ := strings.Cut(call, " ")
		for range 2 { // the first finds a dead connection, the second none
			a := p.wantProblem(p.call(method, path, ""), http.StatusServiceUnavailable, "database_unavailable")
			if a.header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", call)
			}
		}
	}
	for _, path := range []string{"/healthz", "/buses", "/chapters", "/"} {
		p.want(p.get(path), 200)
	}
}

// A client that hangs up after sending its order must not lose the event: what has
// begun is finished.
func TestAClientThatHangsUpLosesNothing(t *testing.T) {
	p := start(t)
	id := uuid.NewString()
	ctx, hangUp := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		p.url+"/chapters/1/orders?variant=held&user_id=u1&items=A&event_id="+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
		}
		gone <- err
	}()
	<-p.entered
	hangUp()
	if err := <-gone; err == nil {
		t.Fatal("the client did not hang up")
	}
	<-p.dropped // the server has noticed, so a context of the request has ended
	close(p.release)
	p.delivered(id)
	if n := pgtest.Count(t, p.live.DB(1), `SELECT count(*) FROM orders WHERE event_id = $1`, id); n != 1 {
		t.Errorf("%d orders", n)
	}
}
