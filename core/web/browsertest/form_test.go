package browsertest

import (
	"strings"
	"testing"
)

// form: the fields that have a meaning are there, and the commands follow them. Nothing
// is run.
func (d *desk) form(t *testing.T) {
	p := d.tab(t)
	p.open("/chapters/4?bus=nats")
	p.settled()
	p.sees("#outage")
	p.pick("#outage", "10s")
	p.says("outage=10s", "--outage 10s")
	if commands := p.text("#experiment .commands"); strings.Contains(commands, "predict") {
		t.Errorf("nothing is predicted yet: %s", commands)
	}
	p.fill("#prediction", "35")
	p.says("predict=35", "predict_what=stuck", "--predict 35 --predict-what stuck")
	if link := ask[string](p, `document.getElementById("permalink").href`); !strings.Contains(link, "outage=10s") || strings.Contains(link, "predict") {
		t.Errorf("the link that is passed on: %s", link)
	}
	p.pick("#fault", "poison")
	p.until("the outage to go", `document.getElementById("outage-field").hidden`)
	if commands := p.text("#experiment .commands"); strings.Contains(commands, "outage") {
		t.Errorf("poison is no outage: %s", commands)
	}
	p.pick("#fault", "broker-down")
	p.sees("#outage")
	p.says("--outage 10s")
}

// pick chooses an option as a browser tells it to the page.
func (p *tab) pick(selector, value string) {
	p.t.Helper()
	ask[bool](p, `(() => { const e = document.querySelector(`+quote(selector)+`); e.value = `+quote(value)+`; return e.dispatchEvent(new Event("input", {bubbles: true})); })()`)
}

// says waits for the commands below the form to have these words.
func (p *tab) says(words ...string) {
	p.t.Helper()
	for _, w := range words {
		p.until(w+" in the commands", `document.querySelector("#experiment .commands").textContent.includes(`+quote(w)+`)`)
	}
}
