package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// problemBody is what a problem's page says beside its number: detail, fields and fix.
var problemBody = regexp.MustCompile(`(?s)</h1>(.*?)<dl|</h1>(.*?)<p class="quiet">`)

var (
	problemTitle = regexp.MustCompile(`(?s)<h1>\d+ (.*?)</h1>`)
	chinese      = regexp.MustCompile(`^<small>\p{Han}+</small>$`)
)

// Whoever reads the pages in Chinese and meets a problem is told in Chinese what it is
// and what to do. Only the words of drivers and of the machine stay as they are.
func TestProblemPagesAreInChinese(t *testing.T) {
	p := startMeasured(t)
	order, nobody := "user_id=u1&items=A", uuid.NewString()
	for _, tt := range []struct {
		method, path, form string
		status             int
		says               []string
	}{
		{"GET", "/nowhere", "", 404, []string{"「/nowhere」這個位址什麼都沒有", "從目錄找起"}},
		{"GET", "/chapters/99", "", 404, []string{"沒有「99」這一章", "有這幾章：1, 3, 6"}},
		{"GET", "/chapters/1?bus=pigeon", "", 400, []string{"沒有「pigeon」這個 bus", "有這些 bus：inmemory"}},
		{"GET", "/chapters/3?variant=x", "", 400, []string{"第 3 章沒有「x」這個 variant", "這一章的 variant 有："}},
		{"GET", "/play?ch=1&fault=meteor", "", 422, []string{"<code>fault</code>：沒有這種故障", "把上面列出的改好"}},
		{"GET", "/chapters/1?orders=0", "", 422, []string{"<code>orders</code>：要在 1 到 2000 之間"}},
		{"GET", "/chapters/1?orders=many", "", 422, []string{"<code>orders</code>：必須是 0 以上的整數"}},
		{"POST", "/runs", "chapter=1&predict=-1", 422, []string{"<code>predict</code>：必須是 0 以上的整數"}},
		{"POST", "/runs", "chapter=1&predict=1.5&seed=x", 422, []string{"<code>predict</code>：", "<code>seed</code>：必須是小於 2^64 的整數"}},
		{"POST", "/runs", "chapter=1&fault=meteor", 422, []string{"沒有「meteor」這種故障；有的是", "故障列在 GET /faults"}},
		{"POST", "/runs", "chapter=1&fault=two-relays&bus=inmemory", 422, []string{"two-relays 在 inmemory 上、在第 1 章不適用：這一章沒有 relay"}},
		{"POST", "/chapters/1/orders", order + "&bus=nats", 503, []string{"nats 沒有啟動：沒有安裝", `這樣啟動它：<span lang="en">install nats-server</span>`}},
		{"POST", "/chapters/1/orders", order + "&bus=kafka", 503, []string{"kafka 還在啟動", "等一下再試"}},
		{"POST", "/chapters/1/orders", "user_id=u1", 422, []string{"<code>items</code>：沒有填"}},
		{"POST", "/chapters/1/orders", order + "&hat=red", 422, []string{"<code>hat</code>：沒有這個參數；有的是"}},
		{"POST", "/chapters/1/orders?variant=bus-down", order, 503, []string{"連不到 inmemory", "等 bus 恢復再試"}},
		{"POST", "/chapters/1/orders?variant=commit-unknown", order, 503, []string{"COMMIT 送出了，回應卻遺失了", "重試之前先查 audit"}},
		{"POST", "/demo/chaos/broker/nats", "seconds=0", 422, []string{"<code>seconds</code>：要在 1 到 300 之間"}},
		{"POST", "/demo/chaos/broker/inmemory", "seconds=1", 422, []string{"沒有連線可以切斷"}},
		{"GET", "/audit/event/x", "", 422, []string{"<code>event_id</code>：必須是 UUID，例如 0a4f9c1e"}},
		{"GET", "/audit/event/" + nobody, "", 404, []string{"沒有任何 row 提到 event " + nobody, "rollback 的訂單不會留下 row"}},
		{"GET", "/runs/x", "", 404, []string{"沒有「x」這次實驗", "都列在 GET /runs"}},
		{"GET", "/metrics?chapter=1", "", 422, []string{"第 1 章沒有 outbox", "改用 chapter=3"}},
		{"POST", "/admin/outbox/7/retry", "chapter=3", 404, []string{"第 3 章的 outbox 沒有「7」這個 row"}},
		{"POST", "/admin/dead-letters/7/replay", "chapter=6", 404, []string{"第 6 章沒有「7」這則 dead letter"}},
		{"POST", "/claims/x", "", 404, []string{"沒有「x」這項主張"}},
		{"POST", "/settings", "theme=red", 422, []string{"<code>theme</code>：沒有這個選項"}},
		{"POST", "/healthz", "", 405, []string{"這個位址不接受 POST", "改用 GET, HEAD"}},
	} {
		a := p.want(p.browse(tt.method, tt.path, tt.form, "Accept-Language", "zh-TW"), tt.status)
		inChinese(t, tt.method+" "+tt.path, a, tt.says...)
	}
	otherProblems(t, p)
}

// inChinese checks the page of a problem. Marked as English may be only what is said to be.
func inChinese(t *testing.T, what string, a answer, says ...string) {
	t.Helper()
	m := problemBody.FindStringSubmatch(string(a.body))
	if m == nil {
		t.Errorf("%s: no problem's page: %s", what, a.body)
		return
	}
	if title := problemTitle.FindStringSubmatch(string(a.body)); title == nil || !chinese.MatchString(title[1]) {
		t.Errorf("%s: the title is not in Chinese: %q", what, title)
	}
	body := m[1] + m[2]
	for _, part := range says {
		if !strings.Contains(body, part) {
			t.Errorf("%s: %s is missing in %s", what, part, body)
		}
		body = strings.ReplaceAll(body, part, "")
	}
	if strings.Contains(body, `lang="en"`) {
		t.Errorf("%s: something is still in English: %s", what, body)
	}
}

// otherProblems: refusals of strangers, and a queue that is full, are in Chinese too;
// JSON never is.
func otherProblems(t *testing.T, p *playground) {
	t.Helper()
	zh := []string{"Accept-Language", "zh-TW"}
	inChinese(t, "a foreign host", p.want(p.browse("GET", "/", "", append(zh, "Host", "evil.example")...), 403), "不回應「evil.example」這個 host", "改用 localhost 或 127.0.0.1")
	a := p.call("POST", "/runs", "chapter=1", append(zh, "Accept", "text/html", "Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example")...)
	inChinese(t, "another site", p.want(a, 403), "別的網站的頁面不能更動這裡的任何東西：Origin 是「https://evil.example」", "從 playground 自己的頁面操作")
	p.want(p.post("/audit/guarantees?chapter=1", ""), 202)
	p.until("the queue is full", func() bool { return p.post("/audit/guarantees?chapter=1", "").status == http.StatusTooManyRequests })
	inChinese(t, "a full queue", p.want(p.browse("POST", "/runs", "chapter=1", zh...), 429), "個實驗在排隊，不能再多了", "等其中幾個結束再試")
	for _, accept := range []string{"", "application/json", "text/plain"} {
		j := p.wantProblem(p.get("/chapters/99", append(zh, "Accept", accept)...), 404, "unknown_chapter")
		if j.text("detail") != `there is no chapter "99"` || j.text("fix") != "the chapters are 1, 3, 6" {
			t.Errorf("JSON is not what it was: %s", j.body)
		}
	}
}
