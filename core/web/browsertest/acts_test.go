package browsertest

import (
	"context"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// click clicks an element with the mouse until the page has heard it. The browser is
// asked where the element is and then told to click there: what moves in between, as a
// page does that scrolls smoothly to its anchor, is missed, or its neighbour is hit.
func (p *tab) click(selector string) {
	p.t.Helper()
	for deadline := time.Now().Add(soon); ; {
		p.sees(selector)
		listening := ask[bool](p, listens(selector))
		if listening && !p.rests(selector) && time.Now().Before(deadline) {
			continue
		}
		ctx, cancel := context.WithDeadline(p.ctx, deadline)
		err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector)))
		cancel()
		switch {
		case time.Now().After(deadline):
			p.t.Fatalf("click on %s: not heard, %v\n%s", selector, err, p.scene())
		case err != nil && !strings.Contains(err.Error(), "Could not find node"):
			p.t.Fatalf("click on %s: %v\n%s", selector, err, p.scene())
		case err == nil && (!listening || !ask[bool](p, "window.heard === false")):
			return // heard, or the document it was for has gone
		}
		p.t.Logf("the click on %s missed: %v", selector, err)
	}
}

// rests scrolls an element into view and waits until it has stood at one place for some
// frames; then it tells whether it is what a mouse would meet there.
func (p *tab) rests(selector string) bool {
	met, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`new Promise(done => {
		let last = "", same = -1;
		document.querySelector(`+quote(selector)+`)?.scrollIntoView({block: "center", behavior: "instant"});
		(function look() {
			const e = document.querySelector(`+quote(selector)+`), box = e?.getBoundingClientRect();
			if (!e) return done(false);
			const now = [box.x, box.y, box.width, box.height].join();
			same = now === last ? same + 1 : 0;
			last = now;
			if (same < 4) return requestAnimationFrame(look);
			done(e.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)));
		})();
	})`, chromedp.EvalAwaitPromise))
	return err == nil && met // an error: the page is just being replaced
}

// listens makes the window note the next click that reaches what the selector names,
// whichever element that is by then. It is false where the page's scripts are off and no
// listener is called.
func listens(selector string) string {
	return `(() => {
		const hear = e => { window.heard ||= e.type === "can-hear" || !!e.target.closest?.(` + quote(selector) + `); };
		window.heard = false;
		window.hearing?.abort();
		window.hearing = new AbortController();
		for (const what of ["can-hear", "click"]) addEventListener(what, hear, {capture: true, signal: window.hearing.signal});
		dispatchEvent(new Event("can-hear"));
		const can = window.heard;
		window.heard = false;
		return can;
	})()`
}

// fill types a value over what a field holds, until it holds that: a page that is drawn
// anew takes the focus and the keys with it.
func (p *tab) fill(selector, value string) {
	p.t.Helper()
	field := "document.querySelector(" + quote(selector) + ")"
	p.eventually(soon, selector+" to hold "+value, func() bool {
		p.sees(selector)
		ask[bool](p, field+".focus(), "+field+".select(), true")
		p.do(chromedp.KeyEvent(value))
		return ask[bool](p, field+"?.value === "+quote(value))
	})
}

// scene is what a reader would tell of the page: its address, what it says and what its
// fields hold.
func (p *tab) scene() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	said, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[location.href,
		...[...document.querySelectorAll("input:not([type=hidden]), select, textarea")].map(e =>
			"#" + e.id + " " + e.name + "=" + e.value + (e.checkValidity() ? "" : " refused: " + e.validationMessage)),
		document.body.innerText.slice(0, 1500)].join("\n")`))
	if err != nil {
		return "the page does not answer: " + err.Error()
	}
	return "the page: " + said
}

// press presses keys one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// tabTo presses the tabulator until an element that matches has the focus, and
// returns how often.
func (p *tab) tabTo(selector string) (pressed int) {
	p.t.Helper()
	for !p.focused(selector) {
		if pressed == 80 {
			p.t.Fatalf("80 times the tabulator, and the focus is not on %s but on %s", selector, p.focus())
		}
		p.press(kb.Tab)
		pressed++
	}
	return pressed
}

func (p *tab) focused(selector string) bool {
	return ask[bool](p, "document.activeElement.matches("+quote(selector)+")")
}

// focus describes the element that has the focus.
func (p *tab) focus() string {
	return ask[string](p, "document.activeElement.outerHTML.slice(0, 200)")
}
