package browsertest

import (
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// focus: what comes by itself does not take the focus from a reader who has gone
// elsewhere, and a table that is drawn anew leaves it where it was.
func (d *desk) focus(t *testing.T) {
	t.Run("verdict", func(t *testing.T) { t.Parallel(); d.typesElsewhere(t) })
	t.Run("guarantees", func(t *testing.T) { t.Parallel(); d.keepsItsCell(t) })
}

func (d *desk) typesElsewhere(t *testing.T) {
	p := d.tab(t)
	p.open("/chapters/1?bus=inmemory")
	p.settled()
	p.fill("#prediction", "30")
	p.click("#experiment button.primary")
	p.sees("#verdict")
	p.do(chromedp.Focus(chromedp.CSS("#user_id")))
	p.within(45*time.Second, "the verdict", hasVerdict)
	p.until("the form to be free again", `!document.querySelector("#experiment button.primary").disabled`)
	if !p.focused("#user_id") {
		t.Errorf("the verdict took the focus to %s", p.focus())
	}
}

// keepsItsCell needs a run that lasts: redis hands a dead listener's message out after 5 s.
func (d *desk) keepsItsCell(t *testing.T) {
	d.post(t, "/audit/guarantees", url.Values{"cell": {"1.write-first.redis.consumer-crash"}})
	p := d.tab(t)
	p.open("/audit/guarantees?bus=redis")
	p.settled()
	const cell = `#cells button[value="2.after-commit.redis.rollback"]`
	p.do(chromedp.Focus(chromedp.CSS(cell)))
	ask[bool](p, `document.getElementById("cells").dataset.old = "yes", true`)
	p.within(20*time.Second, "the table to be drawn anew", `!document.getElementById("cells").dataset.old`)
	if !p.focused(cell) {
		t.Errorf("the focus went to %s", p.focus())
	}
}
