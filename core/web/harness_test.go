package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"outboxplayground/brokers/inmemory"
	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/web"
)

// playground is a whole one: a database of its own, the tiny chapters, the bus in
// memory, and the API on a port.
type playground struct {
	t        *testing.T
	live     *lab.Live
	contract *contract // every answer is held against it
	sampler  *web.Sampler
	url      string
	db       string // DATABASE_URL

	entered, release chan struct{} // of the variant held
	mended           *atomic.Bool  // whether the listener of chapter 6 takes every address
	lab              *web.Lab      // of startMeasured
	dropped          chan struct{} // gets a token for every request whose client hung up
}

// start runs a playground until the test ends. Buses: inmemory is ready, nats is
// off, kafka never comes, rabbitmq and redis are off too.
func start(t *testing.T, change ...func(*web.Options)) *playground {
	t.Helper()
	p := &playground{t: t, db: pgtest.Database(t), contract: readContract(t),
		entered: make(chan struct{}), release: make(chan struct{}), dropped: make(chan struct{}, 100), mended: new(atomic.Bool)}
	live, err := lab.NewLive(t.Context(), lab.LiveConfig{
		Chapters: []lab.Chapter{naiveChapter(p.entered, p.release), outboxChapter(), inboxChapter(p.mended)}, DatabaseURL: p.db,
		Buses: []lab.BusInfo{
			{Name: "inmemory", Mode: "memory", State: lab.Starting},
			{Name: "nats", Mode: "off", State: lab.Off, Note: "not installed", Fix: "install nats-server"},
			{Name: "kafka", Mode: "fake", State: lab.Starting, Note: "starting"},
			{Name: "redis", Mode: "off", State: lab.Off, Fix: "install redis-server"},
			{Name: "rabbitmq", Mode: "off", State: lab.Off, Fix: "install rabbitmq-server"},
		},
		Relay: true, Consumer: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.live = live
	p.run()
	p.sampler = web.NewSampler(live)
	o := web.Options{Sampler: p.sampler}
	for _, f := range change {
		f(&o)
	}
	server := httptest.NewServer(p.watched(web.New(live, o)))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// watched notes the requests whose client goes away before they are answered.
func (p *playground) watched(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stop := context.AfterFunc(r.Context(), func() { p.dropped <- struct{}{} })
		defer stop()
		h.ServeHTTP(w, r)
	})
}

// run starts the lanes and waits until the bus in memory is ready.
func (p *playground) run() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.live.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		<-done
		p.live.Close()
	})
	p.live.Attach(lab.BusInfo{Name: "inmemory", Mode: "memory", Note: "ready"},
		func(ctx context.Context, o lab.BusOptions) (bus.Bus, error) {
			return inmemory.Open(ctx, bus.Config{Prefix: o.Schema}, inmemory.Options{})
		})
	p.until("the bus in memory is ready", func() bool {
		b, err := p.live.Bus("inmemory")
		return err == nil && b.State == lab.Ready
	})
}

// until polls with a deadline.
func (p *playground) until(what string, done func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("not within 15 s: %s", what)
		}
	}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// value reads a dotted path out of a JSON answer; nil where there is none.
func (a answer) value(path string) any {
	var v any
	if json.Unmarshal(a.body, &v) != nil {
		return nil
	}
	for _, key := range strings.Split(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[key]
	}
	return v
}

func (a answer) text(path string) string { return fmt.Sprint(a.value(path)) }

// call sends a request; pairs are headers. The Content-Type is JSON where the body
// looks like it.
func (p *playground) call(method, path, body string, pairs ...string) answer {
	p.t.Helper()
	request, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		switch pairs[i] {
		case "Host":
			request.Host = pairs[i+1]
		default:
			request.Header.Set(pairs[i], pairs[i+1])
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, response.Body); err != nil {
		p.t.Fatal(err)
	}
	a := answer{response.StatusCode, response.Header, b.Bytes()}
	p.contract.check(p.t, request, a)
	return a
}

func (p *playground) get(path string, pairs ...string) answer {
	p.t.Helper()
	return p.call(http.MethodGet, path, "", pairs...)
}

func (p *playground) post(path, body string, pairs ...string) answer {
	p.t.Helper()
	return p.call(http.MethodPost, path, body, pairs...)
}

// want fails the test where the status is another one.
func (p *playground) want(a answer, status int) answer {
	p.t.Helper()
	if a.status != status {
		p.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// wantProblem checks a problem document.
func (p *playground) wantProblem(a answer, status int, code string) answer {
	p.t.Helper()
	p.want(a, status)
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		p.t.Errorf("Content-Type %q of a problem: %s", ct, a.body)
	}
	if a.text("code") != code || a.text("status") != fmt.Sprint(status) {
		p.t.Errorf("code %s status %s, want %s %d: %s", a.text("code"), a.text("status"), code, status, a.body)
	}
	for _, field := range []string{"type", "title", "detail", "fix"} {
		if s, ok := a.value(field).(string); !ok || s == "" {
			p.t.Errorf("%s is missing: %s", field, a.body)
		}
	}
	return a
}

// rows counts all rows of all tables: what a refused request must not change.
func (p *playground) rows() int {
	p.t.Helper()
	const one = `SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM processed) + (SELECT count(*) FROM emails)`
	const three = one + ` + (SELECT count(*) FROM outbox)`
	return pgtest.Count(p.t, p.live.DB(1), one) + pgtest.Count(p.t, p.live.DB(3), three)
}

// delivered waits until the audit says that an event was delivered.
func (p *playground) delivered(id string) answer {
	p.t.Helper()
	var last answer
	p.until("event "+id+" is delivered", func() bool {
		last = p.get("/audit/event/" + id)
		return last.value("valid") == true
	})
	return last
}
