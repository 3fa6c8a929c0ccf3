package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// Each broker is killed and started again under a steady trickle of orders on all
// buses. Nothing is lost, and the other buses do not notice. An outage longer than
// chapter 3's five polls parks rows as failed: the article's own policy, mended by
// the article's own retry.
func TestBrokersKilledUnderATrickle(t *testing.T) {
	env := map[string]string{"DATABASE_URL": servertest.URL(t, "postgres")}
	private := map[string]*servers.Server{}
	networked := []string{"nats", "redis", "rabbitmq", "kafka"}
	for _, name := range networked {
		private[name] = servertest.Start(t, name, servers.Options{Form: servers.Real})
		env[servers.Variable(name)] = private[name].URL
	}
	p := startServe(t, env)
	p.waitReady(allBuses()...)
	for _, name := range networked {
		t.Run(name, func(t *testing.T) { killUnderTrickle(t, p, private[name]) })
	}
}

// trickle places one order on every bus at each step and keeps the event ids.
type trickle map[string][]string

func (tr trickle) step(p *process) {
	for _, name := range allBuses() {
		tr[name] = append(tr[name], p.order("?bus="+name))
	}
}

// until goes on ordering until done, at most two minutes.
func (tr trickle) until(t *testing.T, p *process, done func() bool) {
	t.Helper()
	eventually(t, 2*time.Minute, "the trickle's end", func() bool {
		tr.step(p)
		return done()
	})
}

// hasFailedOnce tells whether a publish of the newest orders has failed: from then
// on the outage is known to have hit.
func (p *process) hasFailedOnce(ids []string) bool {
	p.t.Helper()
	for _, id := range ids[max(0, len(ids)-20):] {
		_, trail := p.call("GET", "/audit/event/"+id, "")
		if trail["outbox"].(map[string]any)["attempts"].(float64) > 0 {
			return true
		}
	}
	return false
}

func killUnderTrickle(t *testing.T, p *process, s *servers.Server) {
	tr := trickle{}
	tr.step(p)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	tr.until(t, p, func() bool { return p.hasFailedOnce(tr[s.Name]) })
	restarted := make(chan error, 1)
	go func() { restarted <- s.Restart(t.Context()) }()
	tr.until(t, p, func() bool {
		select {
		case err := <-restarted:
			if err != nil {
				t.Fatal(err)
			}
			return true
		default:
			return false
		}
	})
	eventually(t, 60*time.Second, "no row to be pending", func() bool { return p.outboxMetrics()["pending"] == 0.0 })
	retried := p.retryAllFailed()
	spent := 0
	for name, ids := range tr {
		for _, id := range ids {
			trail := p.arrived(id)
			if attempts := trail["outbox"].(map[string]any)["attempts"].(float64); attempts > 0 {
				spent++
				if name != s.Name {
					t.Errorf("%s noticed that %s was killed: event %s needed %v attempts", name, s.Name, id, attempts)
				}
			}
		}
	}
	t.Logf("%s %s: %d orders on each bus, %d spent an attempt, %d parked and retried by hand",
		s.Name, s.Version, len(tr[s.Name]), spent, retried)
}

// arrived waits until the event has at least one email: a crash may duplicate.
func (p *process) arrived(id string) (trail map[string]any) {
	p.t.Helper()
	eventually(p.t, 2*time.Minute, "event "+id+" to arrive", func() bool {
		_, trail = p.call("GET", "/audit/event/"+id, "")
		emails, _ := trail["emails"].([]any)
		return len(emails) > 0
	})
	return trail
}

// retryAllFailed is the article's section 6: list, then press retry for each row.
func (p *process) retryAllFailed() (retried int) {
	p.t.Helper()
	for {
		_, list := p.call("GET", "/admin/outbox/failed", "")
		rows, ok := list["failed"].([]any)
		if !ok {
			p.t.Fatalf("the list of failed rows: %v", list)
		}
		if len(rows) == 0 {
			return retried
		}
		for _, row := range rows {
			path := fmt.Sprintf("/admin/outbox/%v/retry", row.(map[string]any)["id"])
			if status, answer := p.call("POST", path, ""); status != http.StatusAccepted {
				p.t.Fatalf("%s: %d %v", path, status, answer)
			}
			retried++
		}
	}
}
