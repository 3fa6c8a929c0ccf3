package web_test

import (
	"strings"
	"testing"
)

func TestHealingAHealthyBrokerTellsNoTimes(t *testing.T) {
	p := start(t)
	a := p.call("DELETE", "/demo/chaos/broker/nats", "")
	if a.status != 200 || strings.Contains(string(a.body), "0001-01-01") || !strings.Contains(string(a.body), "there was no outage") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestARowsNumberIsSpeltAsOurs(t *testing.T) {
	p := start(t)
	for _, id := range []string{"+1", "01", "1.0", "-1"} {
		p.wantProblem(p.call("POST", "/admin/outbox/"+id+"/retry", ""), 404, "row_unknown")
	}
}
