package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"outboxplayground/infra/servers"
)

// Nothing configured: serve brings its own servers, says what each is, is usable
// with at least four buses, and leaves nothing behind.
func TestServeWithPrivateServers(t *testing.T) {
	home, err := os.MkdirTemp("", "playground-home") // /tmp, which the postgres user can enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OUTBOX_PLAYGROUND_HOME": home}
	if _, _, err := servers.Find("postgres"); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	p := startServe(t, env)
	p.waitReady("inmemory", "nats", "redis", "kafka")
	for _, name := range []string{"inmemory", "nats", "redis", "kafka"} {
		healthyPath(t, p, "?bus="+name)
	}
	othersJoin(t, p, env)
	id := p.order("?bus=nats")
	p.delivered(id)
	p.stop()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("SIGTERM: exit %d, want 0", code)
	}
	if _, err := servers.ReadEndpoints(home); err == nil {
		t.Error("the endpoints outlive the process")
	}

	again := startServe(t, env)
	if trail := again.delivered(id); trail["order"] == nil {
		t.Error("the data did not survive the restart")
	}
	kill(t, again)
	third := startServe(t, env)
	third.delivered(id)
}

// othersJoin: a second serve and the audit command use the servers of the first.
func othersJoin(t *testing.T, p *process, env map[string]string) {
	t.Helper()
	id := p.order("?bus=redis")
	p.delivered(id)
	second := startServe(t, env, "--roles", "producer")
	if !strings.Contains(second.output(), "using its servers") {
		t.Errorf("a second serve does not say that it joins:\n%s", second.output())
	}
	second.delivered(id)
	second.stop()
	audit := startCommand(t, env, "audit", id)
	<-audit.done
	if code := audit.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(audit.output(), "delivered") {
		t.Errorf("audit %s: exit %d\n%s", id, code, audit.output())
	}
}

// kill ends the playground without a chance to clean up.
func kill(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

func TestServeSaysWhoHasThePort(t *testing.T) {
	p := startServe(t, sharedURLs(t), "--roles", "producer")
	second := startCommand(t, sharedURLs(t), "serve", "--addr", strings.TrimPrefix(p.api, "http://"))
	<-second.done
	if code := second.cmd.ProcessState.ExitCode(); code != exitCouldNotRun || !strings.Contains(second.output(), "already") {
		t.Errorf("exit %d:\n%s", code, second.output())
	}
}

// A broker that is not there yet: chapter 3 takes orders for it, chapter 1 does not,
// and nobody spends an attempt.
func TestABusThatIsStillStarting(t *testing.T) {
	t.Parallel()
	env := sharedURLs(t)
	env["REDIS_URL"] = "redis://127.0.0.1:1"
	p := startServe(t, env)
	p.waitReady("nats", "inmemory")
	p.order("?bus=redis")
	status, problem := p.call("POST", "/demo/place-order?bus=redis&chapter=1", `{"user_id":"u1","items":["A"]}`)
	if status != http.StatusServiceUnavailable || problem["code"] != "bus_starting" {
		t.Errorf("chapter 1: %d %v, want 503 bus_starting", status, problem)
	}
	_, trail := p.call("GET", "/audit/event/"+p.order("?bus=redis"), "")
	if text, _ := json.Marshal(trail["outbox"]); !strings.Contains(string(text), `"attempts":0`) || trail["valid"] != "unknown" {
		t.Errorf("an order for a bus that is starting: %v", trail)
	}
	resp, err := http.Get(p.api + "/buses")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	eventually(t, 10*time.Second, "the note to say why", func() bool { return strings.Contains(notes(t, p), "not reached yet") })
}

func notes(t *testing.T, p *process) string {
	t.Helper()
	resp, err := http.Get(p.api + "/buses")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list []struct{ Note string }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, b := range list {
		all += b.Note + "\n"
	}
	return all
}

// Only an address that is taken has a holder.
func TestAnAddressThatIsNone(t *testing.T) {
	for _, addr := range []string{"nonsense", "127.0.0.1:99999"} {
		if _, err := listen(t.Context(), addr); err == nil || strings.Contains(err.Error(), "another program") || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// A relay whose playground has ended says so and ends: that playground's servers
// will not come back where they were.
func TestARoleEndsWithItsPlayground(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "playground-home")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := servers.Find("postgres"); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	env := map[string]string{"OUTBOX_PLAYGROUND_HOME": home}
	p := startServe(t, env, "--roles", "producer")
	p.waitReady("nats")
	relay := startCommand(t, env, "relay", "--bus", "nats")
	p.sentBy(relay)
	p.stop()
	select {
	case <-relay.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("the relay goes on without its playground:\n%s", relay.output())
	}
	if code := relay.cmd.ProcessState.ExitCode(); code != exitCouldNotRun || !strings.Contains(relay.output(), "has ended") {
		t.Errorf("exit %d:\n%s", code, relay.output())
	}
}

// sentBy waits until a relay has sent an order.
func (p *process) sentBy(relay *process) {
	p.t.Helper()
	p.order("?bus=nats")
	eventually(p.t, 30*time.Second, "the relay to send: "+relay.output(), func() bool { return p.outboxMetrics()["pending"] == 0.0 })
}
