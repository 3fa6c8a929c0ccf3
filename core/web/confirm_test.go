package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Whoever gives something back on a page is told so there, with a way to what becomes of it.
func TestGivingBackIsConfirmed(t *testing.T) {
	p := start(t)
	const fail = `INSERT INTO outbox (event_id, bus, payload, status, attempts, last_error)
		VALUES (gen_random_uuid(), 'nats', '{}', 'failed', 5, 'x') RETURNING id, event_id::text`
	give := func(path, from string) (*url.URL, string) {
		t.Helper()
		var id int
		var event string
		if err := p.live.DB(3).QueryRow(context.Background(), fail).Scan(&id, &event); err != nil {
			t.Fatal(err)
		}
		a := p.want(p.browse("POST", strings.Replace(path, "ID", fmt.Sprint(id), 1), "chapter=3", "Referer", p.url+from), http.StatusSeeOther)
		to, err := url.Parse(a.header.Get("Location"))
		if err != nil || to.Path != strings.Split(from, "?")[0] {
			t.Fatalf("Location %v, %v", a.header.Get("Location"), err)
		}
		return to, event
	}
	for _, from := range []string{"/admin/outbox/failed?chapter=3&bus=nats&done=7", "/chapters/3?bus=inmemory"} {
		to, event := give("/admin/outbox/ID/retry", from)
		has(t, p.page(to.RequestURI(), 200), "Given back.", `href="/audit/event/`+event+`?chapter=3"`)
		if q := to.Query(); q.Get("bus") == "" || len(q["done"]) != 1 {
			t.Errorf("what the page was asked for is gone: %s", to)
		}
	}
	to, _ := give("/admin/outbox/retry", "/admin/outbox/failed?chapter=3")
	has(t, p.page(to.RequestURI(), 200), "Given back: 1.", `href="/metrics?chapter=3"`)
	for _, nonsense := range []string{"", "done=", "done=x", "done=-1", "done=%3Cb%3E"} {
		if strings.Contains(p.page("/admin/outbox/failed?chapter=3&"+nonsense, 200), "Given back") {
			t.Errorf("%q is confirmed", nonsense)
		}
	}
}
