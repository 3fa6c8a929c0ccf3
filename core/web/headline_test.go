package web_test

import (
	"strings"
	"testing"

	"outboxplayground/core/audit"
)

// A verdict begins with what it means to people, in the number that it has, and a
// driver's words are folded away.
func TestAVerdictSpeaksOfPeople(t *testing.T) {
	lost, phantom, open := lostRun("c0ffee0011"), lostRun("c0ffee0012"), lostRun("c0ffee0013")
	lost.Report.Smallest.Why = "publish: unavailable: bus: broker unavailable: read <tcp>; reset by peer, after COMMIT; the order is committed"
	phantom.Report.Measured = audit.Verdict{Orders: 46, Delivered: 46, Phantom: 1}
	phantom.Report.Faults[0].ToOrder, phantom.Report.Faults[0].Hits = 13, 1
	phantom.Report.Smallest.Why = "last seen: producer killed at before-commit; the event was handled, and there is no order"
	open.Report.Valid = audit.Unknown
	p := startMeasured(t, lost, phantom, open)

	body := p.page("/runs/c0ffee0011", 200)
	has(t, body, "The broker was unreachable when the event was to be published, after COMMIT: the order is committed.",
		`<code lang="en">publish: unavailable: bus: broker unavailable: read &lt;tcp&gt;; reset by peer, after COMMIT</code></p></details>`)
	if n := strings.Count(body, "reset by peer"); n != 1 {
		t.Errorf("the driver's words stand there %d times", n)
	}
	has(t, p.page("/runs/c0ffee0012", 200), ">One email went out for an order that does not exist</h2>", "crash-after-commit: order 13, 1 hit.",
		"The process producer was killed at the step before-commit: the event was handled, and there is no order.")
	has(t, p.page("/runs/c0ffee0012?lang=zh-TW", 200), "producer 的 process 在 before-commit 這一步被 SIGKILL：event 已被處理，而訂單不存在。")
	has(t, p.page("/runs/c0ffee0013", 200), ">This run proves nothing</h2>", "<strong>Unknown</strong>: counted")
}
