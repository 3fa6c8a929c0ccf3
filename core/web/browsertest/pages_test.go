package browsertest

import (
	"context"
	"net/url"
	"testing"
)

// desk is what the tests share: a playground and a browser, and something to look at.
type desk struct {
	*playground
	browser    context.Context
	run, other string // finished: chapter 1 with its loss, chapter 4 without
	lost       string // the run's smallest counterexample
	event      string // an order of chapter 3
	chapters   int    // how many there are
}

// TestPages is everything: the playground and the browser live as long as it does.
func TestPages(t *testing.T) {
	findBrowser(t)
	d := &desk{playground: startPlayground(t)}
	d.browser = startBrowser(t)
	d.seed(t)
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"screenshots", d.screenshots}, {"routes", d.routes}, {"look", d.look},
		{"switches", d.switches}, {"projector", d.projector}, {"keyboard", d.keyboard}, {"withoutScripts", d.withoutScripts},
		{"form", d.form}, {"resume", d.resume}, {"focus", d.focus}, {"hands", d.hands}, {"export", d.export},
	} {
		t.Run(part.name, func(t *testing.T) { t.Parallel(); part.test(t) })
	}
}

// seed makes something to look at.
func (d *desk) seed(t *testing.T) {
	t.Helper()
	d.chapters = len(d.get(t, "/chapters")["chapters"].([]any))
	order := d.post(t, "/demo/place-order", url.Values{"user_id": {"u1"}, "items": {"A,B"}, "bus": {"nats"}})
	d.event = order["event_id"].(string)
	for chapter, id := range map[string]*string{"1": &d.run, "4": &d.other} {
		run := d.post(t, "/runs", url.Values{"chapter": {chapter}, "bus": {"nats"}, "fault": {"broker-down"}, "predict": {"47"}})
		*id = run["id"].(string)
	}
	report := d.finished(t, d.run)
	if report["valid"] != false {
		t.Fatalf("a loss was to be looked at: %v", report)
	}
	d.lost = report["smallest"].(map[string]any)["event_id"].(string)
	if report := d.finished(t, d.other); report["valid"] != true {
		t.Fatalf("an outage without a loss was to be looked at: %v", report)
	}
}
