package web_test

import (
	"strings"
	"testing"
	"time"
)

// The length of an outage is asked for where the fault is one, and goes into every
// command and link; elsewhere it has no meaning and is not there.
func TestTheLengthOfAnOutage(t *testing.T) {
	p := startMeasured(t)
	has(t, p.page("/play?ch=3&bus=kafka&fault=broker-down&outage=45s", 200), `<p class="field" id="outage-field"><label`, "<option selected>45s</option>", "<option>1m</option>",
		"--outage 45s", "outage=45s&amp;", "/play?ch=3&amp;variant=plain&amp;bus=kafka&amp;fault=broker-down&amp;n=47&amp;outage=45s")
	body := p.page("/chapters/3?bus=kafka&fault=rollback&outage=45s", 200)
	has(t, body, `id="outage-field" hidden`, `<select id="outage" name="outage" disabled>`)
	if strings.Contains(body, "--outage") {
		t.Error("an outage of a fault that is none")
	}
	a := p.want(p.get("/play?ch=3&bus=kafka&fault=broker-down&outage=60s"), 200)
	has(t, string(a.body), "--outage 1m", "outage=1m&")
	if ns := a.value("spec.outage_ns"); ns != 60e9 {
		t.Errorf("outage_ns is %v", ns)
	}
	for _, wrong := range []string{"x", "-1s", "6m"} {
		p.page("/chapters/3?outage="+wrong, 422)
	}
	id := p.want(p.post("/runs?chapter=3&bus=inmemory&fault=rollback&outage=2s", ""), 202).text("id")
	if ticket, _ := p.lab.Queue.Get(id); ticket.Spec.Outage != 2*time.Second {
		t.Errorf("%+v", ticket.Spec)
	}
}

// The same run again has the same outage.
func TestTheOutageOfARunIsKept(t *testing.T) {
	r := lostRun("c0ffee0031")
	r.Report.Faults[0].Name, r.Report.Bus, r.Report.Outage = "broker-down", "kafka", "1m0s"
	p := startMeasured(t, r)
	has(t, p.page("/runs/c0ffee0031", 200), `<input type="hidden" name="outage" value="1m0s">`, "outage=1m0s")
	has(t, p.page("/chapters/1?run=c0ffee0031", 200), "<option selected>1m</option>", "--outage 1m", "outage=1m0s")
}
