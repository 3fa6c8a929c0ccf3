package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
)

// inboxChapter is a double with real dead letters: its listener takes no address that
// begins with "bad" until it is mended.
func inboxChapter(mended *atomic.Bool) lab.Chapter {
	once := func(d lab.Deps) *inbox.Once {
		return &inbox.Once{DB: d.DB, Consumer: shop.Group, Bus: d.BusName, Log: d.Log,
			Config: inbox.Config{FirstDelay: time.Millisecond, MaxDelay: time.Millisecond, Poll: 10 * time.Millisecond},
			Effect: func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
				if strings.Contains(string(m.Payload), `"user_id": "bad`) && !mended.Load() {
					return errors.New("no such mailbox")
				}
				return shop.SendEmail(ctx, tx, m.ID, "u1", d.BusName)
			}}
	}
	return lab.Chapter{
		Number: 6, Slug: "inbox", Asks: "duplicated", Topic: "safe", Outbox: true, DeadLetters: true, Listens: true,
		Title: lab.Text{En: "Inbox", ZhTW: "收件匣"}, Question: lab.Text{En: "How many?", ZhTW: "幾封？"},
		Variants: []lab.Variant{{
			Name:     "once",
			Producer: func(d lab.Deps) lab.Producer { return &withOutbox{d} },
			Relay:    func(d lab.Deps) lab.Runner { return &relay{d} },
			Consumer: func(d lab.Deps) bus.Handler { return once(d).Handle },
			Replays:  func(d lab.Deps) lab.Runner { return once(d) },
		}},
	}
}

// kill places an order whose event becomes a dead letter, and returns both ids.
func (p *playground) kill() (eventID string, letter int) {
	p.t.Helper()
	eventID = p.want(p.post("/demo/place-order?chapter=6", `{"user_id":"bad1","items":["A"]}`), http.StatusCreated).text("event_id")
	p.until("event "+eventID+" is a dead letter", func() bool {
		return p.get("/audit/event/"+eventID).text("verdict.stuck") == "1"
	})
	return eventID, pgtest.Count(p.t, p.live.DB(6), `SELECT id FROM dead_letters WHERE event_id = $1`, eventID)
}

func TestADeadLetterIsListedAndReplayed(t *testing.T) {
	p := start(t)
	id, letter := p.kill()
	trail := p.get("/audit/event/" + id)
	if trail.value("valid") != false || !strings.Contains(string(trail.body), fmt.Sprintf("/admin/dead-letters/%d/replay", letter)) {
		t.Errorf("the trail does not lead to the replay: %s", trail.body)
	}
	page := p.want(p.get("/admin/dead-letters"), 200)
	listed := page.value("dead_letters").([]any)
	if len(listed) != 1 || page.text("chapter") != "6" {
		t.Fatalf("%s", page.body)
	}
	first := listed[0].(map[string]any)
	if first["event_id"] != id || first["reason"] != "no such mailbox" || first["attempts"] != 5.0 ||
		first["status"] != "dead" || first["payload_encoding"] != "utf-8" || !strings.Contains(first["payload"].(string), "bad1") {
		t.Errorf("%v", first)
	}
	if m := p.get("/metrics?chapter=6"); m.text("reliability.inbox.dead") != "1" || !strings.Contains(string(m.body), "/admin/dead-letters") {
		t.Errorf("%s", m.body)
	}
	if m := p.get("/metrics?chapter=6", "Accept", "text/plain;version=0.0.4"); !strings.Contains(string(m.body), `inbox_dead_letters{chapter="6",status="dead"} 1`) {
		t.Errorf("%s", m.body)
	}
	if m := p.get("/metrics"); m.value("reliability.inbox") != nil {
		t.Errorf("chapter 3 has none: %s", m.body)
	}
	p.mended.Store(true)
	path := fmt.Sprintf("/admin/dead-letters/%d/replay?chapter=6&by=anna", letter)
	statuses := p.parallel(6, func() answer { return p.post(path, "") })
	if statuses[http.StatusAccepted] != 1 || statuses[http.StatusConflict] != 5 {
		t.Errorf("six replays at once: %v, want one 202 and five 409", statuses)
	}
	p.delivered(id)
	p.wantProblem(p.post(path, ""), http.StatusConflict, "not_dead")
	done := p.get("/admin/dead-letters?status=replayed").value("dead_letters").([]any)
	if len(done) != 1 || done[0].(map[string]any)["requested_by"] != "anna" || done[0].(map[string]any)["replays"] != 1.0 {
		t.Errorf("%v, want who asked", done)
	}
	if n := pgtest.Count(t, p.live.DB(6), `SELECT count(*) FROM emails WHERE event_id = $1`, id); n != 1 {
		t.Errorf("%d emails", n)
	}
	for _, unknown := range []string{"999999", "99999999999999999999999", "x", "-1"} {
		p.wantProblem(p.post("/admin/dead-letters/"+unknown+"/replay", ""), http.StatusNotFound, "letter_unknown")
	}
}

func TestReplayAllOfAFilter(t *testing.T) {
	p := start(t)
	for range 3 {
		p.kill()
	}
	if a := p.want(p.post("/admin/dead-letters/replay?reason=another", ""), http.StatusAccepted); a.text("count") != "0" {
		t.Errorf("%s", a.body)
	}
	page := p.get("/admin/dead-letters?limit=2&reason=MAILBOX")
	if len(page.value("dead_letters").([]any)) != 2 || page.value("next_after") == nil || !strings.Contains(string(page.body), "reason=MAILBOX") {
		t.Errorf("%s", page.body)
	}
	p.mended.Store(true)
	a := p.want(p.post("/admin/dead-letters/replay", `{"reason":"mailbox","bus":"inmemory","by":"anna"}`), http.StatusAccepted)
	if a.text("count") != "3" {
		t.Errorf("%s", a.body)
	}
	p.until("all are replayed", func() bool {
		return len(p.get("/admin/dead-letters?status=replayed").value("dead_letters").([]any)) == 3
	})
	p.want(p.get("/admin/dead-letters.txt"), 200)
}

// A payload that is no text is shown all the same, and what a message says cannot
// steer a terminal.
func TestADeadLetterOfBytes(t *testing.T) {
	p := start(t)
	o := &inbox.Once{DB: p.live.DB(6), Consumer: shop.Group, Bus: "inmemory",
		Effect: func(context.Context, pgx.Tx, bus.Message) error {
			return fmt.Errorf("%w: \x1b[31mred", inbox.ErrUnreadable)
		}}
	for _, m := range []bus.Message{{ID: uuid.NewString(), Topic: "safe", Payload: []byte{0xff, 0}}, {ID: "none", Topic: "safe"}} {
		if err := o.Handle(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	page := p.want(p.get("/admin/dead-letters?chapter=6"), 200)
	listed := page.value("dead_letters").([]any)
	if len(listed) != 2 || listed[0].(map[string]any)["payload"] != "/wA=" || listed[0].(map[string]any)["payload_encoding"] != "base64" ||
		listed[1].(map[string]any)["event_id"] != nil {
		t.Errorf("%s", page.body)
	}
	if text := p.get("/admin/dead-letters.txt"); strings.Contains(string(text.body), "\x1b") || !strings.Contains(string(text.body), "none") {
		t.Errorf("%q", text.body)
	}
}

func TestDeadLetterRequestsThatMakeNoSense(t *testing.T) {
	p := start(t)
	for path, code := range map[string]string{
		"/admin/dead-letters?chapter=3":      "no_dead_letters",
		"/admin/dead-letters?status=lost":    "invalid",
		"/admin/dead-letters?limit=0":        "invalid",
		"/admin/dead-letters?limit=201":      "invalid",
		"/admin/dead-letters?bus=carrier":    "unknown_bus",
		"/admin/dead-letters?chapter=999999": "unknown_chapter",
	} {
		if a := p.get(path); a.status < 400 || a.status > 499 || (code != "invalid" && a.text("code") != code) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/admin/dead-letters/1/replay?chapter=3", "/admin/dead-letters/replay?chapter=1"} {
		p.wantProblem(p.post(path, ""), http.StatusUnprocessableEntity, "no_dead_letters")
	}
	for _, path := range []string{
		"/admin/dead-letters/1/replay?by=", "/admin/dead-letters/replay?by=" + strings.Repeat("x", 101),
		"/admin/dead-letters/replay?status=dead", "/admin/outbox/retry?by=", "/admin/outbox/retry?limit=1",
	} {
		if a := p.post(path, ""); a.status != http.StatusUnprocessableEntity && a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// The outbox's own rows, all of a filter at once.
func TestRetryAllOfAFilter(t *testing.T) {
	p := start(t)
	p.post("/demo/chaos/pause-outbox?chapter=6", "")
	ids := []string{}
	for range 3 {
		ids = append(ids, p.want(p.post("/demo/place-order?chapter=6", `{"user_id":"u1","items":["A"]}`), http.StatusCreated).text("event_id"))
	}
	pool := p.live.DB(6)
	pgtest.Count(t, pool, `WITH f AS (UPDATE outbox SET status = 'failed', attempts = 5, last_error = 'refused' RETURNING 1) SELECT count(*) FROM f`)
	if a := p.want(p.post("/admin/outbox/retry?chapter=6&error=other", ""), http.StatusAccepted); a.text("count") != "0" {
		t.Errorf("%s", a.body)
	}
	a := p.want(p.post("/admin/outbox/retry?chapter=6&error=REFUSED&bus=inmemory&by=anna", ""), http.StatusAccepted)
	if a.text("count") != "3" {
		t.Errorf("%s", a.body)
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM retries WHERE by = 'anna'`); n != 3 {
		t.Errorf("%d of three retries say who asked", n)
	}
	p.wantProblem(p.post("/admin/outbox/retry?chapter=1", ""), http.StatusUnprocessableEntity, "no_outbox")
	p.want(p.get("/admin/outbox/failed.txt?chapter=6"), 200)
	p.post("/demo/chaos/resume-outbox?chapter=6", "")
	for _, id := range ids {
		p.delivered(id)
	}
}
