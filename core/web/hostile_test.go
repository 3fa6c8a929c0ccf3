package web_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"outboxplayground/core/web"
)

// hostile is a request that must be refused without a trace.
type hostile struct {
	name, method, path, body string
	headers                  []string
	status                   int
	code                     string
	says                     string // must be in the answer
}

const place = "/demo/place-order"

func hostileRequests() []hostile {
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	post := func(name, path, body string, status int, code, says string, headers ...string) hostile {
		return hostile{name, http.MethodPost, path, body, headers, status, code, says}
	}
	ok := "user_id=u1&items=A"
	long := strings.Repeat("長", 201)
	return []hostile{
		// what the database cannot store
		post("NUL escape", place, `{"user_id":"a\u0000b","items":["A"]}`, 422, "not_storable", `\\u0000`),
		post("NUL escape in an item", place, `{"user_id":"a","items":["\u0000"]}`, 422, "not_storable", ""),
		post("NUL escape in a key", place, `{"\u0000":1,"user_id":"a","items":["A"]}`, 422, "not_storable", ""),
		post("raw NUL", place, "{\"user_id\":\"a\x00b\",\"items\":[\"A\"]}", 400, "malformed_json", ""),
		post("lone high surrogate", place, `{"user_id":"\ud800","items":["A"]}`, 422, "not_storable", "surrogate"),
		post("lone low surrogate", place, `{"user_id":"a","items":["\udc00"]}`, 422, "not_storable", "surrogate"),
		post("surrogates the wrong way round", place, `{"user_id":"\udc00\ud800","items":["A"]}`, 422, "not_storable", ""),
		post("two high surrogates", place, `{"user_id":"\ud800\ud800","items":["A"]}`, 422, "not_storable", ""),
		post("1e400000", place, `{"user_id":"u1","items":["A"],"count":1e400000}`, 422, "not_storable", "too large"),
		post("a huge number as user_id", place, `{"user_id":1e400000,"items":["A"]}`, 422, "not_storable", ""),
		post("invalid UTF-8 in JSON", place, "{\"user_id\":\"\xff\",\"items\":[\"A\"]}", 422, "not_storable", "UTF-8"),
		post("invalid UTF-8 in a form", place, "user_id=%ff&items=A", 422, "not_storable", "user_id", form...),
		post("invalid UTF-8 in the query", place+"?user_id=%c3%28&items=A", "", 422, "not_storable", "user_id"),
		post("NUL in the query", place+"?user_id=a%00b&items=A", "", 422, "not_storable", "user_id"),
		post("NUL in an item of a form", place, "user_id=u1&items=A,%00", 422, "not_storable", "items", form...),
		// experiments
		post("a prediction of nothing", "/runs", `{"predict":{"delivered":null}}`, 422, "invalid_input", "predict"),
		post("a prediction twice", "/runs", `{"predict":{"delivered":1,"lost":2}}`, 422, "invalid_input", "predict"),
		{"a parameter where there is none", http.MethodDelete, "/demo/chaos/broker/nats?x=1", "", nil, 422, "invalid_input", "no parameters"},
		// bodies that are no order
		post("no JSON", place, `{"user_id":"u1"`, 400, "malformed_json", ""),
		post("garbage after it", place, `{"user_id":"u1","items":["A"]} {}`, 400, "malformed_json", ""),
		post("an array", place, `["u1"]`, 422, "invalid_input", "object"),
		post("null", place, `null`, 422, "invalid_input", "object", "Content-Type", "application/json"),
		post("only spaces", place, "   ", 400, "malformed_json", "", "Content-Type", "application/json"),
		post("a key twice", place, `{"user_id":"u1","user_id":"u2","items":["A"]}`, 422, "invalid_input", "user_id"),
		post("a key twice, once escaped", place, `{"user_id":"u1","\u0075ser_id":"u2","items":["A"]}`, 422, "invalid_input", "user_id"),
		post("nested deeply", place, `{"user_id":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`, 422, "invalid_input", "deeper"),
		post("nested endlessly", place, strings.Repeat(`{"a":`, 100_000), 422, "invalid_input", "deeper"),
		post("an unknown field", place, `{"user_id":"u1","items":["A"],"price":1}`, 422, "invalid_input", "price"),
		post("a field in the wrong case", place, `{"User_id":"u1","items":["A"]}`, 422, "invalid_input", "User_id"),
		post("JSON sent as a form", place, `{"user_id":"u1","items":["A"]}`, 422, "invalid_input", "Content-Type: application/json", form...),
		post("no type", place, "user_id=u1", 415, "unsupported_media_type", "application/json"),
		post("XML", place, "<order/>", 415, "unsupported_media_type", "", "Content-Type", "application/xml"),
		post("multipart", place, "--x--", 415, "unsupported_media_type", "", "Content-Type", "multipart/form-data; boundary=x"),
		post("UTF-16", place, anOrder, 415, "unsupported_media_type", "", "Content-Type", "application/json; charset=utf-16"),
		post("compressed", place, anOrder, 415, "unsupported_media_type", "", "Content-Encoding", "gzip"),
		post("1 MiB and a byte", place, strings.Repeat(" ", 1<<20+1), 413, "body_too_large", "1048576", "Content-Type", "application/json"),
		// fields
		post("nothing at all", place, "", 422, "invalid_input", "user_id"),
		post("no items", place, `{"user_id":"u1"}`, 422, "invalid_input", "items"),
		post("empty user", place, `{"user_id":"","items":["A"]}`, 422, "invalid_input", "1 to 200"),
		post("user too long", place, fmt.Sprintf(`{"user_id":%q,"items":["A"]}`, long), 422, "invalid_input", "1 to 200"),
		post("user is a number", place, `{"user_id":7,"items":["A"]}`, 422, "invalid_input", "user_id"),
		post("user is null", place, `{"user_id":null,"items":["A"]}`, 422, "invalid_input", "user_id"),
		post("items is text", place, `{"user_id":"u1","items":"A"}`, 422, "invalid_input", "items"),
		post("items has a number", place, `{"user_id":"u1","items":["A",1]}`, 422, "invalid_input", "items"),
		post("items is empty", place, `{"user_id":"u1","items":[]}`, 422, "invalid_input", "1 to 100"),
		post("an empty item", place, `{"user_id":"u1","items":["A",""]}`, 422, "invalid_input", "item 2"),
		post("an empty item in the query", place+"?user_id=u1&items=A,", "", 422, "invalid_input", "item 2"),
		post("101 items", place, `{"user_id":"u1","items":["A"`+strings.Repeat(`,"A"`, 100)+`]}`, 422, "invalid_input", "1 to 100"),
		post("an item too long", place, fmt.Sprintf(`{"user_id":"u1","items":[%q]}`, long), 422, "invalid_input", "1 to 200"),
		post("event_id is no UUID", place+"?"+ok+"&event_id=1", "", 422, "invalid_input", "UUID"),
		post("event_id in braces", place+"?"+ok+"&event_id={"+uuid.NewString()+"}", "", 422, "invalid_input", "UUID"),
		post("event_id without dashes", place+"?"+ok+"&event_id="+strings.ReplaceAll(uuid.NewString(), "-", ""), "", 422, "invalid_input", "UUID"),
		post("event_id is SQL", place+"?"+ok+"&event_id=%27%3BDROP+TABLE+orders%3B--", "", 422, "invalid_input", "UUID"),
		post("fail=2", place+"?fail=2&"+ok, "", 422, "invalid_input", "0, 1, true or false"),
		post("fail without a value", place+"?fail&"+ok, "", 422, "invalid_input", "0, 1, true or false"),
		post("fail is text", place, `{"user_id":"u1","items":["A"],"fail":"1"}`, 422, "invalid_input", "fail"),
		post("given twice", place+"?user_id=u1&user_id=u2&items=A", "", 422, "invalid_input", "2 times"),
		post("given twice, the same", place+"?user_id=u1&user_id=u1&items=A", "", 422, "invalid_input", "2 times"),
		post("query and body differ", place+"?user_id=u2", anOrder, 422, "invalid_input", "different values"),
		post("query and body differ in fail", place+"?fail=1", `{"user_id":"u1","items":["A"],"fail":false}`, 422, "invalid_input", "fail"),
		post("unknown parameter", place+"?"+ok+"&chpater=1", "", 422, "invalid_input", "chpater"),
		post("broken escape", place+"?user_id=%zz", "", 400, "malformed_query", ""),
		post("semicolon", place+"?user_id=u1;items=A", "", 400, "malformed_query", ""),
		// names
		post("unknown bus", place+"?bus=zeromq&"+ok, "", 400, "unknown_bus", "rabbitmq"),
		post("empty bus", place+"?bus=&"+ok, "", 400, "unknown_bus", "inmemory"),
		post("bus as SQL", place+"?bus=%27%3B--&"+ok, "", 400, "unknown_bus", "kafka"),
		post("unknown chapter", place+"?chapter=99&"+ok, "", 400, "unknown_chapter", "1, 3"),
		post("chapter is no number", place+"?chapter=x&"+ok, "", 400, "unknown_chapter", ""),
		post("chapter with a sign", place+"?chapter=%2B3&"+ok, "", 400, "unknown_chapter", ""),
		post("unknown variant", place+"?variant=x&"+ok, "", 400, "unknown_variant", "plain"),
		post("another chapter's variant", place+"?variant=write-first&"+ok, "", 400, "unknown_variant", ""),
		post("unknown chapter in the path", "/chapters/99/orders?"+ok, "", 404, "unknown_chapter", "1, 3"),
		post("two chapters", "/chapters/1/orders?chapter=3&"+ok, "", 422, "invalid_input", "path"),
		// buses that cannot take an order
		post("bus off", place+"?bus=nats&"+ok, "", 503, "bus_off", "install nats-server"),
		post("bus starting, and the chapter needs it", place+"?chapter=1&bus=kafka&"+ok, "", 503, "bus_starting", "GET /buses"),
		// elsewhere
		post("no such path", "/demo/place-orders", anOrder, 404, "not_found", ""),
		{"GET of an order", http.MethodGet, place, "", nil, 405, "method_not_allowed", "POST"},
		{"DELETE of the metrics", http.MethodDelete, "/metrics", "", nil, 405, "method_not_allowed", "GET"},
		{"a method that does not exist", "BREW", place, "", nil, 405, "method_not_allowed", "POST"},
		{"HEAD of a race", http.MethodHead, "/demo/race-naive-vs-outbox", "", nil, 405, "", ""},
		{"event is no UUID", http.MethodGet, "/audit/event/1", "", nil, 422, "invalid_input", "UUID"},
		{"unknown event", http.MethodGet, "/audit/event/" + uuid.NewString(), "", nil, 404, "event_unknown", ""},
		{"path climbs", http.MethodGet, "/chapters/..%2f..%2fetc%2fpasswd", "", nil, 404, "", ""},
		{"limit of a page", http.MethodGet, "/admin/outbox/failed?limit=201", "", nil, 422, "invalid_input", "1 to 200"},
		{"negative after", http.MethodGet, "/admin/outbox/failed?after=-1", "", nil, 422, "invalid_input", "after"},
		{"NUL in a filter", http.MethodGet, "/admin/outbox/failed?error=%00", "", nil, 422, "not_storable", "error"},
		{"unknown bus in a filter", http.MethodGet, "/admin/outbox/failed?bus=x", "", nil, 400, "unknown_bus", ""},
		{"two chapters on a read", http.MethodGet, "/metrics?chapter=1&chapter=3", "", nil, 422, "invalid_input", "chapter"},
		{"no outbox there", http.MethodGet, "/metrics?chapter=1", "", nil, 422, "no_outbox", "chapter=3"},
		post("no outbox to pause", "/demo/chaos/pause-outbox?chapter=1", "", 422, "no_outbox", "chapter=3"),
		post("pause what", "/demo/chaos/pause-outbox?bus=nats", "", 422, "invalid_input", "known are chapter"),
		post("retry in no outbox", "/admin/outbox/1/retry?chapter=1", "", 422, "no_outbox", ""),
		post("race of 0", "/demo/race-naive-vs-outbox?count=0", "", 422, "invalid_input", "1 to 1000"),
		post("race of 1001", "/demo/race-naive-vs-outbox?count=1001", "", 422, "invalid_input", "1 to 1000"),
		post("race of -1", "/demo/race-naive-vs-outbox?count=-1", "", 422, "invalid_input", "whole number"),
		post("race of 1e2", "/demo/race-naive-vs-outbox", `{"count":1e2}`, 422, "invalid_input", "whole number"),
		post("race on a bus that is off", "/demo/race-naive-vs-outbox?bus=redis", "", 503, "bus_off", "redis-server"),
	}
}

func TestHostileRequestsAreRefusedWithoutATrace(t *testing.T) {
	p := start(t, func(o *web.Options) { o.Race = noRace(t) })
	before := p.rows()
	for _, h := range hostileRequests() {
		t.Run(h.name, func(t *testing.T) {
			q := *p
			q.t = t
			a := q.call(h.method, h.path, h.body, h.headers...)
			if h.method == http.MethodHead {
				q.want(a, h.status)
				return
			}
			code := h.code
			if code == "" {
				code = a.text("code")
			}
			q.wantProblem(a, h.status, code)
			if !strings.Contains(string(a.body), h.says) {
				t.Errorf("%q is not said: %s", h.says, a.body)
			}
			if h.status == http.StatusMethodNotAllowed && !strings.Contains(a.header.Get("Allow"), h.says) {
				t.Errorf("Allow is %q", a.header.Get("Allow"))
			}
		})
	}
	if after := p.rows(); after != before {
		t.Errorf("%d rows before, %d after", before, after)
	}
	if a := p.get("/metrics"); a.value("reliability.outbox.paused") != false {
		t.Error("a refused call paused the outbox")
	}
}

// noRace fails the test when a race is run.
func noRace(t *testing.T) func(context.Context, int, string) (web.RaceResult, error) {
	return func(context.Context, int, string) (web.RaceResult, error) {
		t.Error("a refused race was run")
		return web.RaceResult{}, nil
	}
}

// What Go's own client does not send: a body that breaks off, one without a length,
// a request without a host.
func TestRawRequests(t *testing.T) {
	p := start(t)
	head := "POST /demo/place-order HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	big := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 1<<20+1, strings.Repeat(" ", 1<<20+1))
	for name, tt := range map[string]struct {
		raw  string
		want int
	}{
		"breaks off":          {head + "Content-Length: 100\r\n\r\n{", 400},
		"too long, no length": {head + "Transfer-Encoding: chunked\r\n\r\n" + big, 413},
		"no host":             {"GET /healthz HTTP/1.0\r\n\r\n", 403},
		"a full address":      {"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
	} {
		if got := p.raw(tt.raw); got != tt.want {
			t.Errorf("%s: status %d, want %d", name, got, tt.want)
		}
	}
	if n := p.rows(); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// raw sends bytes, says that no more will come, and reads the status.
func (p *playground) raw(request string) int {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	sent := make(chan struct{})
	go func() { // beside the reading: the server may answer before it has read all
		defer close(sent)
		_, _ = io.Copy(conn, bytes.NewReader([]byte(request)))
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response.Body.Close()
	conn.Close()
	<-sent
	return response.StatusCode
}
