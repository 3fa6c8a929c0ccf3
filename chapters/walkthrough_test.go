package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The article's sections 4.1 to 4.3, pasted one by one, on every bus.
func TestTheArticlesWalkthrough(t *testing.T) {
	p := startServe(t, sharedURLs(t))
	p.waitReady(allBuses()...)
	for _, name := range append([]string{""}, allBuses()...) {
		t.Run("bus="+name, func(t *testing.T) {
			q := "?bus=" + name
			if name == "" {
				q = "?" // the default bus
			}
			healthyPath(t, p, q)
			rollbackPath(t, p, q)
			pausedPath(t, p, q)
		})
	}
}

func healthyPath(t *testing.T, p *process, q string) {
	t.Helper()
	trail := p.delivered(p.order(q))
	outbox := trail["outbox"].(map[string]any)
	if trail["order"] == nil || outbox["status"] != "sent" || len(trail["processed"].([]any)) != 1 || len(trail["emails"].([]any)) != 1 {
		t.Errorf("the trail of a delivered event: %v", trail)
	}
}

func rollbackPath(t *testing.T, p *process, q string) {
	t.Helper()
	status, answer := p.call("POST", "/demo/place-order"+q+"&fail=1", `{"user_id":"u1","items":["A","B"]}`)
	if status != http.StatusUnprocessableEntity || answer["status"] != "rolled_back" || answer["error"] == "" {
		t.Fatalf("fail=1: %d %v", status, answer)
	}
	id := answer["event_id"].(string)
	if status, problem := p.call("GET", "/audit/event/"+id, ""); status != http.StatusNotFound || problem["code"] != "event_unknown" {
		t.Errorf("a rolled back event has a trail: %d %v", status, problem)
	}
}

func pausedPath(t *testing.T, p *process, q string) {
	t.Helper()
	if status, answer := p.call("POST", "/demo/chaos/pause-outbox", ""); status != http.StatusOK || answer["paused"] != true {
		t.Fatalf("pause: %d %v", status, answer)
	}
	ids := make([]string, 10)
	for i := range ids {
		ids[i] = p.order(q)
	}
	m := p.outboxMetrics()
	if m["pending"] != 10.0 || m["oldest_pending_lag_ms"] == nil || m["oldest_pending_lag_ms"].(float64) <= 0 {
		t.Errorf("while paused: %v, want 10 pending and a lag", m)
	}
	if status, answer := p.call("POST", "/demo/chaos/resume-outbox", ""); status != http.StatusOK || answer["paused"] != false {
		t.Fatalf("resume: %d %v", status, answer)
	}
	eventually(t, 20*time.Second, "pending to be 0", func() bool { return p.outboxMetrics()["pending"] == 0.0 })
	if m := p.outboxMetrics(); m["oldest_pending_lag_ms"] != nil {
		t.Errorf("after resuming: %v, want no lag", m)
	}
	for _, id := range ids {
		p.delivered(id)
	}
}

// The same with every role in a process of its own, as the article has it.
func TestRolesAsProcessesOfTheirOwn(t *testing.T) {
	env := sharedURLs(t)
	p := startServe(t, env, "--roles", "producer")
	networked := []string{"rabbitmq", "kafka", "nats", "redis"}
	p.waitReady(networked...)
	first := p.order("?bus=redis")
	if m := p.outboxMetrics(); m["pending"] != 1.0 {
		t.Errorf("with no relay running: %v, want 1 pending", m)
	}
	relay, consumer := startCommand(t, env, "relay"), startCommand(t, env, "consume")
	p.delivered(first)
	for role, said := range map[*process]string{relay: "published", consumer: "email sent"} {
		eventually(t, time.Minute, "the role to tell what it did: "+said, func() bool {
			return strings.Contains(role.output(), "chapter 3  redis     "+first+"  "+said)
		})
	}
	for _, name := range networked {
		healthyPath(t, p, "?bus="+name)
		rollbackPath(t, p, "?bus="+name)
		pausedPath(t, p, "?bus="+name)
	}
	if status, problem := p.call("POST", "/demo/place-order?bus=inmemory", `{"user_id":"u1","items":["A"]}`); status != http.StatusServiceUnavailable || problem["code"] != "bus_off" {
		t.Errorf("the bus in memory without a relay: %d %v", status, problem)
	}
}

func TestSeparateRolesRefuseTheBusInMemory(t *testing.T) {
	for _, role := range []string{"relay", "consume"} {
		p := startCommand(t, nil, role, "--bus", "inmemory")
		<-p.done
		if code := p.cmd.ProcessState.ExitCode(); code != exitCouldNotRun {
			t.Errorf("%s --bus inmemory: exit %d, want %d:\n%s", role, code, exitCouldNotRun, p.output())
		}
	}
}

// Chapter 1 on every bus: healthy orders arrive, and an order that fails inside
// publish-first's transaction is a phantom.
func TestChapterOneOnEveryBus(t *testing.T) {
	p := startServe(t, sharedURLs(t))
	p.waitReady(allBuses()...)
	for _, name := range allBuses() {
		t.Run(name, func(t *testing.T) {
			for _, q := range []string{"&chapter=1", "&chapter=1&variant=publish-first", "&chapter=2"} {
				p.delivered(p.order("?bus=" + name + q))
			}
			path := fmt.Sprintf("/demo/place-order?bus=%s&chapter=1&variant=publish-first&fail=1", name)
			_, answer := p.call("POST", path, `{"user_id":"u1","items":["A"]}`)
			id, ok := answer["event_id"].(string)
			if !ok {
				t.Fatalf("%s: %v", path, answer)
			}
			eventually(t, 20*time.Second, "the phantom to show", func() bool {
				_, trail := p.call("GET", "/audit/event/"+id+"?chapter=1", "")
				verdict, _ := trail["verdict"].(map[string]any)
				return trail["valid"] == false && verdict["phantom"] == 1.0
			})
		})
	}
}

// The race's own claim: naive loses what the outage covers, the outbox nothing.
func TestRaceOnEveryNetworkedBus(t *testing.T) {
	t.Parallel()
	p := startServe(t, sharedURLs(t))
	p.waitReady(allBuses()...)
	for _, name := range []string{"rabbitmq", "kafka", "nats", "redis"} {
		t.Run(name, func(t *testing.T) {
			status, r := p.call("POST", "/demo/race-naive-vs-outbox?count=47&bus="+name, "")
			if status != http.StatusOK {
				t.Fatalf("race: %d %v", status, r)
			}
			naive, outbox := r["naive"].(map[string]any), r["outbox"].(map[string]any)
			if naive["delivered"] != 12.0 || naive["lost"] != 35.0 || naive["orders"] != 47.0 {
				t.Errorf("naive: %v, want 12 delivered and 35 lost of 47", naive)
			}
			if outbox["delivered"] != 47.0 || outbox["lost"] != 0.0 || outbox["stuck"] != 0.0 {
				t.Errorf("outbox: %v, want 47 delivered", outbox)
			}
			t.Logf("%s: %v", name, r)
		})
	}
}
