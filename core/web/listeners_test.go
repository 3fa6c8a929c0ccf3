package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The gauge counts sessions that have said that they hear, by bus; a bus without one
// has 0, and a chapter where nobody is meant to listen has no gauge.
func TestMetricsTellWhoListens(t *testing.T) {
	p := start(t)
	gauge := func(bus string) string {
		return p.get("/metrics?chapter=6").text("reliability.outbox.listeners." + bus)
	}
	if gauge("inmemory") != "0" || gauge("redis") != "0" {
		t.Errorf("nobody listens: %s", p.get("/metrics?chapter=6").body)
	}
	cfg, err := pgx.ParseConfig(p.db)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["application_name"] = "hears ch06.outbox inmemory"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if gauge("inmemory") != "1" || gauge("redis") != "0" {
		t.Errorf("one session listens: %s", p.get("/metrics?chapter=6").body)
	}
	if m := p.get("/metrics?chapter=6", "Accept", "text/plain;version=0.0.4"); !strings.Contains(string(m.body), `outbox_listeners{bus="inmemory",chapter="6"} 1`) {
		t.Errorf("Prometheus: %s", m.body)
	}
	if m := p.get("/metrics?chapter=6", "Accept", "text/plain"); !strings.Contains(string(m.body), "listening for") {
		t.Errorf("as text: %s", m.body)
	}
	if m := p.get("/metrics"); m.value("reliability.outbox.listeners") != nil {
		t.Errorf("chapter 3 listens: %s", m.body)
	}
}
