package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"outboxplayground/core/pg/pgtest"
)

const anOrder = `{"user_id":"u1","items":["A","B"]}`

// Section 4.1 of the article.
func TestAnOrderIsCommittedAndDelivered(t *testing.T) {
	p := start(t)
	a := p.want(p.post("/demo/place-order", anOrder), http.StatusCreated)
	for path, want := range map[string]string{"status": "committed", "bus": "inmemory", "chapter": "3"} {
		if a.text(path) != want {
			t.Errorf("%s is %q, want %q", path, a.text(path), want)
		}
	}
	if !regexp.MustCompile(`"tx_ms": \d+\.\d\d,`).Match(a.body) {
		t.Errorf("tx_ms is no number with two decimals: %s", a.body)
	}
	trail := p.delivered(a.text("event_id"))
	for path, want := range map[string]string{
		"chapter": "3", "bus": "inmemory", "order.user_id": "u1", "order.items": "[A B]",
		"outbox.status": "sent", "outbox.topic": "safe", "outbox.attempts": "0", "outbox.last_error": "<nil>",
		"verdict.orders": "1", "verdict.delivered": "1", "verdict.lost": "0", "dead_letters": "[]",
	} {
		if trail.text(path) != want {
			t.Errorf("%s is %q, want %q", path, trail.text(path), want)
		}
	}
	if len(trail.value("processed").([]any)) != 1 || len(trail.value("emails").([]any)) != 1 {
		t.Errorf("not processed and mailed once: %s", trail.body)
	}
}

// Section 4.2: nothing is left, in any chapter but where the event left before.
func TestFailLeavesNothing(t *testing.T) {
	p := start(t)
	for _, path := range []string{"/demo/place-order?fail=1", "/demo/place-order?fail=true&chapter=1", "/chapters/3/orders?fail=1"} {
		a := p.want(p.post(path, anOrder), http.StatusUnprocessableEntity)
		if a.header.Get("Content-Type") != "application/json" {
			t.Errorf("Content-Type %q, want the article's plain JSON", a.header.Get("Content-Type"))
		}
		if a.text("status") != "rolled_back" || a.text("error") != "simulated business failure before commit" || a.text("note") == "<nil>" {
			t.Errorf("%s: %s", path, a.body)
		}
		p.wantProblem(p.get("/audit/event/"+a.text("event_id")), http.StatusNotFound, "event_unknown")
	}
	if n := p.rows(); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestFailAfterTheEventLeftIsAPhantom(t *testing.T) {
	p := start(t)
	a := p.want(p.post("/chapters/1/orders?variant=publish-first&fail=1", anOrder), http.StatusUnprocessableEntity)
	if strings.Contains(a.text("note"), "nothing was sent") {
		t.Errorf("the note claims what is not so: %s", a.text("note"))
	}
	var trail answer
	p.until("the audit sees the phantom", func() bool {
		trail = p.get("/audit/event/" + a.text("event_id"))
		return trail.value("valid") == false
	})
	if trail.text("verdict.phantom") != "1" || trail.text("order") != "<nil>" || trail.text("chapter") != "1" {
		t.Errorf("%s", trail.body)
	}
}

// Section 4.3.
func TestPauseTenOrdersResume(t *testing.T) {
	p := start(t)
	if a := p.want(p.post("/demo/chaos/pause-outbox", ""), 200); a.value("paused") != true {
		t.Errorf("%s", a.body)
	}
	for i := range 10 {
		p.want(p.post("/demo/place-order", fmt.Sprintf(`{"user_id":"u%d","items":["A"]}`, i)), http.StatusCreated)
	}
	a := p.want(p.get("/metrics"), 200)
	if a.text("reliability.outbox.pending") != "10" || a.text("reliability.outbox.paused") != "true" {
		t.Errorf("%s", a.body)
	}
	if lag, ok := a.value("reliability.outbox.oldest_pending_lag_ms").(float64); !ok || lag < 0 {
		t.Errorf("no lag: %s", a.body)
	}
	if a := p.want(p.post("/demo/chaos/resume-outbox", ""), 200); a.value("paused") != false {
		t.Errorf("%s", a.body)
	}
	p.until("nothing is pending", func() bool { return p.get("/metrics").text("reliability.outbox.pending") == "0" })
	a = p.get("/metrics")
	if !strings.Contains(string(a.body), `"oldest_pending_lag_ms": null`) || a.text("reliability.outbox.by_bus.inmemory.sent") != "10" {
		t.Errorf("%s", a.body)
	}
}

// Section 6.
func TestFailedRowsAndRetry(t *testing.T) {
	p := start(t)
	p.post("/demo/chaos/pause-outbox", "")
	id := p.want(p.post("/demo/place-order", anOrder), http.StatusCreated).text("event_id")
	pool := p.live.DB(3)
	row := pgtest.Count(t, pool, `UPDATE outbox SET status = 'failed', attempts = 5, last_error = 'refused'
		WHERE event_id = $1 RETURNING id`, id)
	list := p.want(p.get("/admin/outbox/failed"), 200)
	if rows := list.value("failed").([]any); len(rows) != 1 || rows[0].(map[string]any)["event_id"] != id {
		t.Errorf("%s", list.body)
	}
	if a := p.get("/audit/event/" + id); a.value("valid") != false || a.text("verdict.stuck") != "1" {
		t.Errorf("%s", a.body)
	}
	path := fmt.Sprintf("/admin/outbox/%d/retry", row)
	statuses := p.parallel(6, func() answer { return p.post(path, "") })
	if statuses[http.StatusAccepted] != 1 || statuses[http.StatusConflict] != 5 {
		t.Errorf("six retries at once: %v, want one 202 and five 409", statuses)
	}
	p.wantProblem(p.post(path, ""), http.StatusConflict, "not_failed")
	p.wantProblem(p.post("/admin/outbox/999999/retry", ""), http.StatusNotFound, "row_unknown")
	p.wantProblem(p.post("/admin/outbox/99999999999999999999999/retry", ""), http.StatusNotFound, "row_unknown")
	p.wantProblem(p.post("/admin/outbox/x/retry", ""), http.StatusNotFound, "row_unknown")
	p.post("/demo/chaos/resume-outbox", "")
	p.delivered(id)
}

func TestTheSameEventIDCountsOnce(t *testing.T) {
	p := start(t)
	for _, chapter := range []string{"1", "3"} {
		id := uuid.NewString()
		order := fmt.Sprintf(`{"user_id":"u1","items":["A"],"event_id":%q}`, strings.ToUpper(id))
		place := func() answer { return p.post("/demo/place-order?chapter="+chapter, order) }
		statuses := p.parallel(8, place)
		if statuses[http.StatusCreated] != 1 || statuses[http.StatusConflict] != 7 {
			t.Errorf("chapter %s: eight at once: %v, want one 201 and seven 409", chapter, statuses)
		}
		p.delivered(id)
		before := p.rows()
		a := p.wantProblem(place(), http.StatusConflict, "duplicate_event_id")
		if a.text("event_id") != id || p.rows() != before {
			t.Errorf("the refused order left something, or names another id: %s", a.body)
		}
	}
}

func TestOrdersInEveryShape(t *testing.T) {
	p := start(t)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for name, a := range map[string]answer{
		"query":       p.post("/demo/place-order?user_id=u1&items=A,B", ""),
		"form":        p.post("/demo/place-order", "user_id=u1&items=A,B", form...),
		"form, twice": p.post("/demo/place-order", "user_id=u1&items=A&items=B", form...),
		"mixed":       p.post("/demo/place-order?items=A,B&chapter=1", `{"user_id":"u1"}`),
		"in the body": p.post("/demo/place-order", `{"user_id":"u1","items":["A","B"],"chapter":1,"bus":"inmemory","fail":false,"variant":"publish-first"}`),
		"same twice":  p.post("/demo/place-order?user_id=u1", anOrder),
		"charset":     p.post("/demo/place-order", anOrder, "Content-Type", "application/json; charset=UTF-8"),
		"fail=0":      p.post("/demo/place-order?fail=0", anOrder),
		"chapter's":   p.post("/chapters/1/orders?variant=write-first", anOrder),
		"unicode":     p.post("/demo/place-order", `{"user_id":"陳小明 😀 \ud83d\ude00","items":["茶"]}`),
		"the longest": p.post("/demo/place-order", fmt.Sprintf(`{"user_id":%q,"items":["A","B"]}`, strings.Repeat("長", 200))),
	} {
		if a.status != http.StatusCreated {
			t.Errorf("%s: status %d: %s", name, a.status, a.body)
			continue
		}
		trail := p.delivered(a.text("event_id"))
		if name != "unicode" && trail.text("order.items") != "[A B]" {
			t.Errorf("%s: items %s", name, trail.text("order.items"))
		}
	}
}

// parallel makes n calls at once and counts the statuses.
func (p *playground) parallel(n int, call func() answer) map[int]int {
	p.t.Helper()
	var all sync.WaitGroup
	answers := make(chan answer, n)
	for range n {
		all.Go(func() { answers <- call() })
	}
	all.Wait()
	close(answers)
	statuses := map[int]int{}
	for a := range answers {
		statuses[a.status]++
	}
	return statuses
}
