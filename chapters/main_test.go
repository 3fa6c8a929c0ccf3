package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"outboxplayground/brokers"
	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// childMark tells the test binary that it is to be the playground itself: the tests
// start it as a process of its own, as a reader would.
const childMark = "PLAYGROUND_TEST_CHILD"

func TestMain(m *testing.M) {
	switch name := os.Getenv(sabotageMark); {
	case name != "" && len(os.Args) > 1 && os.Args[1] == childCommandName:
		os.Exit(runSabotaged(name))
	case os.Getenv(childMark) != "":
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// process is a running command of the playground.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	api  string
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

// startCommand runs `chapters args…` with exactly the given variables besides the
// machine's own, and stops it when the test ends.
func startCommand(t *testing.T, env map[string]string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(machineEnv(), childMark+"=1")
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(pipe)
	t.Cleanup(func() { p.stop() })
	return p
}

// machineEnv is the environment without the names of servers.
func machineEnv() []string {
	var kept []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		named := name == "ADDR" || name == "OUTBOX_PLAYGROUND_HOME"
		for _, s := range servers.Names() {
			named = named || name == servers.Variable(s)
		}
		if !named {
			kept = append(kept, kv)
		}
	}
	return kept
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *process) read(pipe io.Reader) {
	defer close(p.done)
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		fmt.Fprintln(p, lines.Text())
	}
	_ = p.cmd.Wait() // tests read the state
}

// stop asks for a graceful stop and fails the test if it takes too long.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopLimit + 5*time.Second):
		p.t.Errorf("still running long after SIGTERM:\n%s", p.output())
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	if p.t.Failed() {
		p.t.Logf("%s said:\n%s", strings.Join(p.cmd.Args[1:], " "), p.output())
	}
}

// startServe runs serve on a free port and waits until it answers.
func startServe(t *testing.T, env map[string]string, args ...string) *process {
	t.Helper()
	p := startCommand(t, env, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	eventually(t, 60*time.Second, "serve to print where it is", func() bool {
		_, rest, ok := strings.Cut(p.output(), "http://")
		if !ok || !strings.Contains(rest, "\n") {
			return false
		}
		p.api = "http://" + strings.TrimSpace(rest[:strings.Index(rest, "\n")])
		return true
	})
	eventually(t, 60*time.Second, "/healthz", func() bool {
		resp, err := http.Get(p.api + "/healthz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// sharedURLs name the servers that ./infra/test has started.
func sharedURLs(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, name := range servers.Names() {
		env[servers.Variable(name)] = servertest.URL(t, name)
	}
	return env
}

// eventually polls until done, and names what it waited for when it gives up.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("gave up waiting %v for %s", limit, what)
		case <-tick.C:
		}
	}
}

// call sends a request and decodes the JSON answer into a map.
func (p *process) call(method, path, body string) (status int, answer map[string]any) {
	p.t.Helper()
	req, err := http.NewRequest(method, p.api+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		p.t.Fatalf("%s %s: %d, not JSON: %s", method, path, resp.StatusCode, text)
	}
	return resp.StatusCode, answer
}

// waitReady waits until every one of the buses is ready.
func (p *process) waitReady(buses ...string) {
	p.t.Helper()
	eventually(p.t, 60*time.Second, "the buses to be ready: "+strings.Join(buses, ", "), func() bool {
		return p.readyOnes(buses) == len(buses)
	})
}

func (p *process) readyOnes(buses []string) int {
	resp, err := http.Get(p.api + "/buses")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var list []struct{ Name, State string }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		p.t.Fatal(err)
	}
	n := 0
	for _, b := range list {
		if ok, _ := oneOf(b.Name, buses); ok && b.State == "ready" {
			n++
		}
	}
	return n
}

// order places an order and returns its event id.
func (p *process) order(query string) string {
	p.t.Helper()
	status, answer := p.call("POST", "/demo/place-order"+query, `{"user_id":"u1","items":["A","B"]}`)
	if status != http.StatusCreated || answer["status"] != "committed" {
		p.t.Fatalf("place-order%s: %d %v", query, status, answer)
	}
	return answer["event_id"].(string)
}

// delivered waits until the audit says that the event was processed.
func (p *process) delivered(id string) map[string]any {
	p.t.Helper()
	var trail map[string]any
	eventually(p.t, 90*time.Second, "event "+id+" to be delivered", func() bool {
		_, trail = p.call("GET", "/audit/event/"+id, "")
		return trail["valid"] == true
	})
	return trail
}

func (p *process) outboxMetrics() map[string]any {
	p.t.Helper()
	_, m := p.call("GET", "/metrics", "")
	return m["reliability"].(map[string]any)["outbox"].(map[string]any)
}

func allBuses() []string { return brokers.Names() }
