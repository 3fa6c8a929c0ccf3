package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// Keystrokes from the opened chapter to the first prediction, at most.
const maxKeystrokes = 7

// keyboard: chapter 1 from the first page to the verdict and its timeline, by keys
// alone, on three buses.
func (d *desk) keyboard(t *testing.T) {
	for bus, fault := range map[string]string{"nats": "broker-down", "redis": "broker-down", "inmemory": "crash-after-commit"} {
		t.Run(bus, func(t *testing.T) {
			t.Parallel()
			p := d.tab(t)
			p.open("/")
			p.settled()
			p.tabTo(`main a[href^="/chapters/1"]`)
			p.press(kb.Enter)
			p.until("chapter 1", "location.pathname === '/chapters/1'")
			p.settled()
			p.quickly()
			p.choose("bus", bus)
			if got := ask[string](p, "document.getElementById('fault').value"); got != fault {
				t.Errorf("on %s the form offers %s, want %s", bus, got, fault)
			}
			p.tabTo("#prediction")
			p.press("2", "0", kb.Enter)
			d.reads(p, bus, 20)
			p.tabTo(`#verdict a[href^="/audit/event/"]`)
			p.press(kb.Enter)
			p.until("the event's page", "location.pathname.startsWith('/audit/event/')")
			p.stepsThrough()
		})
	}
}

// quickly counts the keystrokes until a prediction is sent, without sending it.
func (p *tab) quickly() {
	p.t.Helper()
	tabs := p.tabTo(`a.skip[href="#prediction"]`)
	p.press(kb.Enter)
	p.until("the link to lead to the prediction", `document.activeElement.id === "prediction"`)
	n := tabs + 1 + len("47") + 1 // Enter on the link, the number, Enter
	p.t.Logf("%d keystrokes to the first prediction", n)
	if n > maxKeystrokes {
		p.t.Errorf("%d keystrokes from the opened chapter to the first prediction, at most %d may be needed", n, maxKeystrokes)
	}
}

// choose picks an option of a select by typing its first letters.
func (p *tab) choose(name, value string) {
	p.t.Helper()
	chosen := "document.getElementById(" + quote(name) + ").value === " + quote(value)
	if ask[bool](p, chosen) {
		return
	}
	p.tabTo("#" + name)
	for _, letter := range value {
		p.press(string(letter))
	}
	p.until(value+" to be chosen", chosen)
}

// hasVerdict tells that a run is over and its verdict can be seen.
const hasVerdict = `document.querySelector("#verdict .beside")?.checkVisibility()`

// reads waits for the verdict and compares it with the run's report.
func (d *desk) reads(p *tab, bus string, predicted int) {
	p.t.Helper()
	p.within(45*time.Second, "the verdict", hasVerdict)
	report := d.finished(p.t, p.runID())
	if report["bus"] != bus || report["valid"] != false {
		p.t.Errorf("%s: the run is on %v and its verdict is %v", bus, report["bus"], report["valid"])
	}
	measured := report["measured"].(map[string]any)
	beside := " " + p.text("#verdict .beside") + " "
	for _, n := range []any{predicted, measured["delivered"], measured["lost"]} {
		if !strings.Contains(beside, fmt.Sprintf(" %v ", n)) {
			p.t.Errorf("%v does not stand in the verdict: %s", n, beside)
		}
	}
}

// runID is the run whose verdict is shown.
func (p *tab) runID() string { return ask[string](p, `document.getElementById("verdict").dataset.run`) }

// stepsThrough goes through a timeline with the arrow keys.
func (p *tab) stepsThrough() {
	p.t.Helper()
	p.sees("figure.timeline svg")
	p.settled()
	p.tabTo(".tl-scroll")
	steps := ask[int](p, `document.querySelectorAll(".tl-step").length`)
	if rows := ask[int](p, `document.querySelectorAll("figure.timeline tr[data-step]").length`); steps < 3 || rows != steps {
		p.t.Errorf("the timeline has %d steps, its text twin %d", steps, rows)
	}
	for _, key := range []struct {
		name, key string
		at        int
	}{{"→", kb.ArrowRight, 1}, {"→", kb.ArrowRight, 2}, {"←", kb.ArrowLeft, 1}, {"→", kb.ArrowRight, 2}, {"Home", kb.Home, 1}, {"End", kb.End, 0}} {
		p.press(key.key)
		now := ask[int](p, `+(document.querySelector(".tl-step.is-now")?.dataset.step ?? 0)`)
		said := p.text(".tl-say")
		if now != key.at || strings.HasPrefix(said, fmt.Sprintf("%d/%d", key.at, steps)) != (key.at > 0) {
			p.t.Errorf("after %s the timeline is at step %d, want %d; it says %q", key.name, now, key.at, said)
		}
	}
}
