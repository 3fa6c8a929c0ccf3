package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// withoutScripts: with JavaScript off a run is predicted, asked for and read, and the
// switches work. What is evaluated here is the test's own and still runs.
func (d *desk) withoutScripts(t *testing.T) {
	p := d.tab(t)
	off := emulation.SetScriptExecutionDisabledParams{Value: true}
	if _, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, off); err != nil {
		t.Fatal(err)
	}
	d.switchAll(p)
	p.open("/chapters/1?bus=nats")
	p.fill("#prediction", "33")
	p.click("#experiment button.primary")
	d.reads(p, "nats", 33)
}
