package browsertest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// startBrowser starts one headless Chromium for all tests, and ends it with them.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)),
		chromedp.Flag("headless", "new"), chromedp.Flag("no-proxy-server", true), chromedp.Flag("lang", "en"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's rule for root
	}
	machine, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, _ := chromedp.NewContext(machine)
	t.Cleanup(func() {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := chromedp.Cancel(limited); err != nil {
			t.Errorf("closing the browser: %v", err)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	return ctx
}

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	lack(t, "no Chromium (./infra/test installs it)")
	return ""
}

// tab is a reader's window with cookies of its own. All its methods fail the test.
type tab struct {
	*record
	t      *testing.T
	ctx    context.Context
	origin string
}

const (
	// tabLimit is how long a test may use its tab.
	tabLimit = 5 * time.Minute
	// soon is how long a page may take for what it has to do at once, on two busy cores.
	soon = 20 * time.Second
)

// tab opens a window of 1280 by 900.
func (d *desk) tab(t *testing.T) *tab { return d.tabAt(t, d.api) }

// tabAt opens a window for a playground that is reached elsewhere.
func (d *desk) tabAt(t *testing.T, origin string) *tab {
	t.Helper()
	p := &tab{t: t, origin: origin, record: &record{origin: origin, bytes: map[string]int{}}}
	ctx, cancel := chromedp.NewContext(d.browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.see))
	t.Cleanup(cancel)
	p.ctx, cancel = context.WithTimeout(ctx, tabLimit)
	t.Cleanup(cancel)
	t.Cleanup(p.judge(t))
	p.allow(`404 .*/no-such-page`)             // the page that says so
	if err := chromedp.Do(p.ctx); err != nil { // the tab lives as long as this first context
		t.Fatal(err)
	}
	p.width(1280)
	return p
}

// in is the same tab for a part of the test.
func (p *tab) in(t *testing.T) *tab {
	part := *p
	part.t = t
	return &part
}

// width sets the window's width; the height stays that of a laptop.
func (p *tab) width(px int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(px, 900))
}

// media makes the browser say that the reader prefers something, such as
// prefers-color-scheme: dark.
func (p *tab) media(name, value string) {
	p.t.Helper()
	features := []*emulation.MediaFeature{{Name: name, Value: value}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		p.t.Fatal(err)
	}
}

// do does what a reader would; whatever it waits for has to be there soon.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, soon)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%v\n%s", err, p.scene())
	}
}

// open loads a path of the playground.
func (p *tab) open(path string) {
	p.t.Helper()
	p.at(path)
	ctx, cancel := context.WithTimeout(p.ctx, soon)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(p.origin+path)); err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
}

// ask evaluates an expression in the page.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true, across loads of other pages.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	p.within(soon, what, expression)
}

// within is until with a limit of its own.
func (p *tab) within(limit time.Duration, what, expression string) {
	p.t.Helper()
	p.eventually(limit, what, func() bool {
		v, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err != nil && p.ctx.Err() != nil {
			p.t.Fatalf("%s: %v", what, err)
		}
		return err == nil && v // an error: the page is just being replaced
	})
}

// eventually polls until done; where it gives up it says what the page shows.
func (p *tab) eventually(limit time.Duration, what string, done func() bool) {
	p.t.Helper()
	if !polled(p.ctx, limit, done) {
		p.t.Fatalf("gave up waiting %v for %s\n%s", limit, what, p.scene())
	}
}

// sees waits for an element to be visible.
func (p *tab) sees(selector string) {
	p.t.Helper()
	p.until(selector+" to be seen", "document.querySelector("+quote(selector)+")?.checkVisibility()")
}

// text is what an element says.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return strings.Join(strings.Fields(ask[string](p, "document.querySelector("+quote(selector)+")?.innerText ?? ''")), " ")
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
