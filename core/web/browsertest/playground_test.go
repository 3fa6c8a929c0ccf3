package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"outboxplayground/infra/servers"
)

// playground is a `serve` of its own: a process with private servers.
type playground struct {
	api  string // http://127.0.0.1:port
	cmd  *exec.Cmd
	over chan struct{} // closed when the process has ended

	mu  sync.Mutex
	out bytes.Buffer
}

// startPlayground builds and starts the playground, and waits until the buses that
// the tests use are ready. It is stopped when the test ends.
func startPlayground(t *testing.T) *playground {
	t.Helper()
	if _, _, err := servers.Find("postgres"); err != nil {
		lack(t, "%v (./infra/test installs it)", err)
	}
	cmd := exec.Command(build(t), "serve", "--addr", "127.0.0.1:0")
	cmd.Env = environment(t)
	p := &playground{cmd: cmd, over: make(chan struct{})}
	cmd.Stderr = p
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go p.read(pipe, address)
	t.Cleanup(func() { p.stop(t) })
	select {
	case p.api = <-address:
	case <-p.over:
		t.Fatalf("serve ended at once:\n%s", p.said())
	case <-time.After(time.Minute):
		t.Fatalf("serve does not say where it is:\n%s", p.said())
	}
	eventually(t, time.Minute, "nats, redis, kafka and inmemory to be ready", p.ready)
	return p
}

// build compiles the playground the way the tests are compiled, so that most of it
// comes out of the cache.
func build(t *testing.T) string {
	t.Helper()
	start, program := time.Now(), filepath.Join(t.TempDir(), "playground")
	args := []string{"build", "-buildvcs=false", "-o", program}
	if raced {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "outboxplayground/chapters")...).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Logf("built in %v", time.Since(start).Round(time.Second))
	return program
}

// environment names no server but one that is not there: starting a RabbitMQ costs
// seconds, and the pages have to bear a bus that is not ready.
func environment(t *testing.T) []string {
	t.Helper()
	home, err := os.MkdirTemp("", "playground-home") // /tmp, which the postgres user can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"ADDR": true, "OUTBOX_PLAYGROUND_HOME": true, "KAFKA_CLASSPATH": true, "KAFKA_HOME": true}
	for _, s := range servers.Names() {
		named[servers.Variable(s)] = true
	}
	kept := []string{"OUTBOX_PLAYGROUND_HOME=" + home, "RABBITMQ_URL=amqp://127.0.0.1:1"}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !named[name] {
			kept = append(kept, kv)
		}
	}
	return kept
}

func (p *playground) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *playground) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// read keeps what the process prints, and finds its address in it.
func (p *playground) read(pipe io.Reader, address chan<- string) {
	defer close(p.over)
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		_, _ = p.Write(append(lines.Bytes(), '\n'))
		if _, host, found := strings.Cut(lines.Text(), "http://"); found && strings.HasPrefix(lines.Text(), "Outbox Playground") {
			address <- "http://" + strings.TrimSpace(host)
		}
	}
	_ = p.cmd.Wait()
}

// stop asks for a graceful end. The race detector's findings are in the output.
func (p *playground) stop(t *testing.T) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.over:
	case <-time.After(20 * time.Second):
		t.Error("serve still runs 20 s after SIGTERM")
		_ = p.cmd.Process.Kill()
		<-p.over
	}
	if raced := strings.Contains(p.said(), "DATA RACE"); raced || t.Failed() {
		t.Logf("serve said:\n%s", p.said())
		if raced {
			t.Error("a data race in serve")
		}
	}
}

// ready tells whether the buses of the tests take orders.
func (p *playground) ready() bool {
	var list []struct{ Name, State string }
	resp, err := http.Get(p.api + "/buses")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&list) != nil {
		return false
	}
	n := 0
	for _, b := range list {
		if b.State == "ready" && strings.Contains("nats redis kafka inmemory", b.Name) {
			n++
		}
	}
	return n == 4
}

// post sends a call and returns the JSON object that answers it.
func (p *playground) post(t *testing.T, path string, fields url.Values) map[string]any {
	t.Helper()
	return p.call(t, http.MethodPost, path, fields)
}

// get returns the JSON object at a path.
func (p *playground) get(t *testing.T, path string) map[string]any {
	t.Helper()
	return p.call(t, http.MethodGet, path, nil)
}

func (p *playground) call(t *testing.T, method, path string, fields url.Values) (answer map[string]any) {
	t.Helper()
	req, err := http.NewRequest(method, p.api+path, strings.NewReader(fields.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if fields != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode >= 400 {
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return answer
}

// finished waits for the end of a run and returns its report.
func (p *playground) finished(t *testing.T, id string) map[string]any {
	t.Helper()
	var run map[string]any
	eventually(t, time.Minute, "run "+id+" to be over", func() bool {
		run = p.get(t, "/runs/"+id)
		return run["state"] == "done" || run["state"] == "failed"
	})
	report, ok := run["report"].(map[string]any)
	if !ok {
		t.Fatalf("run %s has no report: %v", id, run)
	}
	return report
}

// eventually polls until done, and names what it waited for when it gives up.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	if !polled(t.Context(), limit, done) {
		t.Fatalf("gave up waiting %v for %s", limit, what)
	}
}

// polled asks until the answer is yes; false means that the time is up.
func polled(ctx context.Context, limit time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// lack says what the tests cannot do without.
func lack(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
