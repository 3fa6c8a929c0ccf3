package web_test

import (
	"context"
	"testing"
)

// Lists and events say first, in the reader's language, what kind of failure it was; the
// driver's or the listener's own words stand beside it in small print.
func TestFailuresAreSaidInTheReadersWords(t *testing.T) {
	p := start(t)
	const fail = `INSERT INTO outbox (event_id, bus, payload, status, attempts, last_error)
		VALUES (gen_random_uuid(), 'nats', '{}', 'failed', 5, $1) RETURNING event_id::text`
	small := func(text string) string { return `<code lang="en">` + text + `</code></small>` }
	letter, _ := p.kill()
	for _, tt := range []struct{ text, en, zh, raw string }{
		{"redis: 9 bytes exceed <1>: bus: message rejected", "The broker refused the message for good.", "broker 拒收這則訊息", "redis: 9 bytes exceed &lt;1&gt;: bus: message rejected"},
		{"bus: broker unavailable: nats: not connected", "The broker could not be reached.", "連不到 broker。", "bus: broker unavailable: nats: not connected"},
		{"unexpected EOF", "Nobody can tell whether the broker has the message.", "無法確定 broker 收到了沒有", "unexpected EOF"},
	} {
		var event string
		if err := p.live.DB(3).QueryRow(context.Background(), fail, tt.text).Scan(&event); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/admin/outbox/failed?chapter=3", "/chapters/3", "/audit/event/" + event + "?chapter=3"} {
			has(t, p.page(path, 200), tt.en+` <small class="tl-raw">`, small(tt.raw))
			has(t, p.page(path, 200, "Accept-Language", "zh-TW"), tt.zh, small(tt.raw))
		}
	}
	for _, path := range []string{"/admin/dead-letters", "/audit/event/" + letter} {
		has(t, p.page(path, 200), `The listener failed at it. <small class="tl-raw">`, small("no such mailbox"))
		has(t, p.page(path, 200, "Accept-Language", "zh-TW"), "listener 處理失敗。", small("no such mailbox"))
	}
}
