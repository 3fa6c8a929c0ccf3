package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// get asks with headers and returns the answer as it came.
func (p *process) get(path string, headers ...string) (*http.Response, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.api+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, string(body)
}

// ask puts a run into the queue and returns its id.
func (p *process) ask(spec string) string {
	p.t.Helper()
	resp, err := http.Post(p.api+"/runs", "application/json", strings.NewReader(spec))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ ID, State string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		p.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusAccepted || resp.Header.Get("Location") != "/runs/"+answer.ID || answer.ID == "" {
		p.t.Fatalf("POST /runs: %s, Location %q, %+v", resp.Status, resp.Header.Get("Location"), answer)
	}
	return answer.ID
}

// A run over HTTP from the question to the answer: predicted, watched, resumed, read,
// and its trails still there when its schema is gone.
func TestARunOverHTTP(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	p := startServe(t, b.env())
	p.waitReady("nats")
	id := p.ask(`{"chapter":1,"variant":"publish-first","bus":"nats","fault":"rollback","predict":{"delivered":47}}`)
	if resp, body := p.get("/audit/run/" + id); resp.StatusCode != http.StatusConflict || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(body, "run_not_finished") {
		t.Errorf("the report before the end: %s %s", resp.Status, body)
	}
	seen := p.watch(id)
	p.resume(id, seen)

	_, body := p.get("/runs/" + id)
	var run struct {
		State  string
		Report struct {
			Valid     any
			Predicted map[string]int
			Measured  map[string]int
			Smallest  struct {
				EventID string `json:"event_id"`
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &run); err != nil {
		t.Fatal(err)
	}
	r := run.Report
	if run.State != "done" || r.Valid != false || r.Predicted["delivered"] != 47 || r.Measured["delivered"] != 46 || r.Measured["phantom"] != 1 {
		t.Errorf("the run: %s", body)
	}
	if status, audit := p.call("GET", "/audit/run/"+id, ""); status != http.StatusOK || len(audit["trails"].([]any)) != 47 || audit["valid"] != false {
		t.Errorf("/audit/run: %d", status)
	}
	if left := b.schemas(t); len(left) > 0 {
		t.Errorf("schemas %v are still there: the next check proves nothing", left)
	}
	if status, trail := p.call("GET", "/audit/event/"+r.Smallest.EventID, ""); status != http.StatusOK || trail["valid"] != false {
		t.Errorf("the trail of the counterexample: %d %v", status, trail)
	}
	if _, list := p.get("/runs"); !strings.Contains(list, id) {
		t.Error("/runs does not list it")
	}
	_, table := p.get("/audit/guarantees?chapter=1&bus=nats&fault=rollback&variant=publish-first")
	var cells struct {
		Rows []struct {
			Run, Declared, Version string
			Agrees                 *bool
		}
	}
	if err := json.Unmarshal([]byte(table), &cells); err != nil {
		t.Fatal(err)
	}
	if len(cells.Rows) != 1 || cells.Rows[0].Run != id || cells.Rows[0].Agrees == nil || !*cells.Rows[0].Agrees || cells.Rows[0].Declared == "" {
		t.Errorf("the cell: %s", table)
	}
}

// watch reads a run's progress to its end, as NDJSON, and returns the last number.
func (p *process) watch(id string) (last int) {
	p.t.Helper()
	resp, body := p.get("/runs/"+id+"/events", "Accept", "application/x-ndjson")
	if kind := resp.Header.Get("Content-Type"); kind != "application/x-ndjson" {
		p.t.Errorf("the stream is %q", kind)
	}
	var stages []string
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		var e struct {
			Seq   int
			Stage string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			p.t.Fatalf("%v: %s", err, lines.Text())
		}
		if last++; e.Seq != last {
			p.t.Errorf("event %d has the number %d", last, e.Seq)
		}
		if len(stages) == 0 || stages[len(stages)-1] != e.Stage {
			stages = append(stages, e.Stage)
		}
	}
	if got := strings.Join(stages, " "); got != "queued preparing running waiting judging done" {
		p.t.Errorf("the stages are %s", got)
	}
	return last
}

// resume asks for what comes after the event before the last, in both ways.
func (p *process) resume(id string, last int) {
	p.t.Helper()
	before := jsonNumber(last - 1)
	resp, body := p.get("/runs/"+id+"/events", "Last-Event-ID", before)
	want := "id: " + jsonNumber(last) + "\nevent: done\ndata: {"
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" || !strings.HasPrefix(body, want) || strings.Count(body, "event: ") != 1 {
		p.t.Errorf("resumed after %s: %s\n%s", before, kind, body)
	}
	if _, body := p.get("/runs/"+id+"/events?after="+before, "Accept", "application/x-ndjson"); strings.Count(body, "\n") != 1 {
		p.t.Errorf("resumed with ?after=%s:\n%s", before, body)
	}
}

func jsonNumber(n int) string { b, _ := json.Marshal(n); return string(b) }

// What cannot be run is told at once, with its own code; beyond the queue it is 429.
func TestRunsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	p := startServe(t, b.env())
	p.waitReady("nats")
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/runs", `{"chapter":1,"bus":"nats","fault":"two-relays"}`, 422, "not_applicable"},
		{"POST", "/runs", `{"chapter":1,"bus":"inmemory","fault":"broker-down"}`, 422, "not_applicable"},
		{"POST", "/runs", `{"chapter":1,"bus":"nats","fault":"fire"}`, 422, "invalid_input"},
		{"POST", "/runs", `{"chapter":1,"bus":"nats","orders":2001}`, 422, "invalid_input"},
		{"POST", "/runs", `{"chapter":1,"bus":"nats","outage":"6m"}`, 422, "invalid_input"},
		{"POST", "/runs", `{"chapter":1,"bus":"nats","predict":{"sold":1}}`, 422, "invalid_input"},
		{"POST", "/runs", `{"chapter":1,"bus":"pigeon"}`, 400, "unknown_bus"},
		{"GET", "/runs/nobody", "", 404, "run_unknown"},
		{"GET", "/runs/nobody/events", "", 404, "run_unknown"},
		{"GET", "/audit/run/nobody", "", 404, "run_unknown"},
		{"GET", "/audit/guarantees?fault=fire", "", 422, "invalid_input"},
	} {
		if status, problem := p.call(c.method, c.path, c.body); status != c.status || problem["code"] != c.code || problem["fix"] == "" {
			t.Errorf("%s %s %s: %d %v, want %d %s", c.method, c.path, c.body, status, problem, c.status, c.code)
		}
	}
	long := `{"chapter":3,"bus":"nats","fault":"broker-down","outage":"1m"}`
	for range 100 {
		resp, err := http.Post(p.api+"/runs", "application/json", strings.NewReader(long))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests {
			if resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "queue_full") {
				t.Errorf("Retry-After %q: %s", resp.Header.Get("Retry-After"), body)
			}
			p.stop()
			b.nothingLeft(t)
			return
		}
	}
	t.Error("a hundred runs are queued")
}

// An outage on demand: real, counted, listed, and over when it is told so.
func TestAnOutageOnDemand(t *testing.T) {
	t.Parallel()
	p := startServe(t, sharedURLs(t))
	p.waitReady("nats", "redis")
	p.delivered(p.order("?bus=nats&chapter=1"))
	if status, a := p.call("POST", "/demo/chaos/broker/nats?seconds=60", ""); status != http.StatusOK || a["broken"] != true || a["expires"] == nil {
		t.Fatalf("break: %d %v", status, a)
	}
	lost := p.order("?bus=nats&chapter=1") // 201: nobody is told
	p.delivered(p.order("?bus=redis&chapter=1"))
	_, faults := p.call("GET", "/faults", "")
	active, _ := faults["active"].([]any)
	if len(active) != 1 || active[0].(map[string]any)["bus"] != "nats" || active[0].(map[string]any)["hits"].(float64) == 0 {
		t.Errorf("/faults: %v", faults["active"])
	}
	if status, a := p.call("DELETE", "/demo/chaos/broker/nats", ""); status != http.StatusOK || a["broken"] != false {
		t.Errorf("heal: %d %v", status, a)
	}
	if _, faults := p.call("GET", "/faults", ""); len(faults["active"].([]any)) != 0 {
		t.Errorf("after the end: %v", faults["active"])
	}
	p.delivered(p.order("?bus=nats"))
	eventually(t, 30*time.Second, "the order of the outage to count as lost", func() bool {
		_, trail := p.call("GET", "/audit/event/"+lost+"?chapter=1", "")
		verdict, _ := trail["verdict"].(map[string]any)
		return trail["valid"] == false && verdict["lost"] == 1.0
	})
	for path, want := range map[string]int{"inmemory": 422, "pigeon": 404, "nats?seconds=0": 422, "nats?seconds=301": 422} {
		if status, a := p.call("POST", "/demo/chaos/broker/"+path, ""); status != want || a["code"] == nil {
			t.Errorf("%s: %d %v, want %d", path, status, a, want)
		}
	}
}
