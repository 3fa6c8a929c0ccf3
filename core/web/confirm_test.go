package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// Whoever gives something back on a page is told so there, with a way to what becomes of it.
func TestGivingBackIsConfirmed(t *testing.T) {
	p := start(t)
	const fail = `INSERT INTO outbox (event_id, bus, payload, status, attempts, last_error)
		VALUES (gen_random_uuid(), 'nats', '{}', 'failed', 5, 'x') RETURNING id, event_id::text`
	give := func(path, from string) (*url.URL, string, string) {
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
		return to, event, done(t, a)
	}
	for _, from := range []string{"/admin/outbox/failed?chapter=3&bus=nats", "/chapters/3?bus=inmemory"} {
		to, event, cookie := give("/admin/outbox/ID/retry", from)
		a := p.want(p.browse("GET", to.RequestURI(), "", "Cookie", cookie), 200)
		has(t, string(a.body), "Given back.", `href="/audit/event/`+event+`?chapter=3"`)
		if to.RequestURI() != from {
			t.Errorf("what the page was asked for is gone: %s", to)
		}
		if done(t, a) != "done=" {
			t.Errorf("a second page would say it again: %v", a.header)
		}
	}
	_, event, cookie := give("/admin/outbox/ID/retry", "/chapters/3")
	has(t, p.page("/audit/event/"+event+"?chapter=3", 200, "Cookie", cookie), "Given back.")
	to, _, cookie := give("/admin/outbox/retry", "/admin/outbox/failed?chapter=3")
	has(t, p.page(to.RequestURI(), 200, "Cookie", cookie), "Given back: 1.", `href="/metrics?chapter=3"`)
}

// done is the cookie that an answer sets for the next page.
func done(t *testing.T, a answer) string {
	t.Helper()
	for _, set := range a.header.Values("Set-Cookie") {
		if value, attributes, _ := strings.Cut(set, ";"); strings.HasPrefix(value, "done=") {
			if !strings.Contains(attributes, "HttpOnly") || !strings.Contains(attributes, "Max-Age") {
				t.Errorf("%s", set)
			}
			return value
		}
	}
	return ""
}

// Only the answer to a form makes a page confirm: no link does, no refused form, and
// nothing that was done in another chapter or to another event.
func TestOnlyWhatWasDoneIsConfirmed(t *testing.T) {
	p := start(t)
	event := uuid.NewString()
	for _, link := range []string{"", "&done=1", "&done=3.1", "&done=" + event} {
		if strings.Contains(p.page("/admin/outbox/failed?chapter=3"+link, 200), "Given back") {
			t.Errorf("%q is confirmed", link)
		}
	}
	for _, cookie := range []string{"done=", "done=x", "done=3.", "done=3.-1", "done=3.<b>", "done=6.1", "done=33.1"} {
		if strings.Contains(p.page("/admin/outbox/failed?chapter=3", 200, "Cookie", cookie), "Given back") {
			t.Errorf("%q is confirmed", cookie)
		}
	}
	if a := p.want(p.browse("POST", "/admin/outbox/7/retry", "chapter=3"), 404); done(t, a) != "" {
		t.Errorf("a retry that was refused will be confirmed: %v", a.header)
	}
	id := p.want(p.post(place, anOrder), 201).text("event_id")
	for cookie, want := range map[string]bool{"done=3." + event: false, "done=3.4": false, "done=3." + id: true} {
		if got := strings.Contains(p.page("/audit/event/"+id, 200, "Cookie", cookie), "Given back"); got != want {
			t.Errorf("%s: confirmed is %t on the page of %s", cookie, got, id)
		}
	}
}
