package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// maxWeight is what a page may transfer, with all that it loads. Bytes.
const maxWeight = 150_000

// look opens every page in both languages and looks at it in every way that needs no
// other load: what it says of itself, its weight, its accessibility, at a phone's width,
// and for a reader who wants no motion. English is judged in the light theme, Chinese
// in the dark one: labels depend on the language, contrast on the theme.
func (d *desk) look(t *testing.T) {
	axe := axe(t)
	for lang, theme := range map[string]string{"en": "light", "zh-TW": "dark"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			p := d.tab(t)
			p.cold()
			for _, c := range d.pages() {
				t.Run(c.name, func(t *testing.T) { p.in(t).looked(d, c, lang, theme, axe) })
			}
		})
	}
}

// looked looks at one page.
func (p *tab) looked(d *desk, c pageCase, lang, theme, axe string) {
	p.t.Helper()
	p.forget()
	p.media("prefers-color-scheme", theme)
	p.open(withLang(d.path(c), lang))
	p.settled()
	p.written(lang)
	p.light()
	if !c.like {
		p.accessible(axe)
	}
	p.media("prefers-reduced-motion", "reduce")
	p.still()
	p.width(390)
	p.fits()
	p.width(1280)
}

func withLang(path, lang string) string {
	for _, r := range path {
		if r == '?' {
			return path + "&lang=" + lang
		}
	}
	return path + "?lang=" + lang
}

// cold takes nothing from the cache, as at the first visit.
func (p *tab) cold() {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}); err != nil {
		p.t.Fatal(err)
	}
}

// settled waits until the page's scripts have run and two frames were drawn.
func (p *tab) settled() {
	p.t.Helper()
	p.until("the page to be loaded", "document.readyState === 'complete'")
	ask[bool](p, "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
}

// written checks what the document says of itself: language, title, one h1, every id once.
func (p *tab) written(lang string) {
	p.t.Helper()
	if got := ask[string](p, "document.documentElement.lang"); got != lang {
		p.t.Errorf("<html lang> is %q, want %q", got, lang)
	}
	if got := ask[int](p, "document.querySelectorAll('h1').length"); got != 1 {
		p.t.Errorf("%d h1", got)
	}
	if p.text("h1") == "" || ask[string](p, "document.title") == "" {
		p.t.Error("no title")
	}
	for _, id := range ask[[]string](p, `[...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i)`) {
		p.t.Errorf("two elements have the id %q", id)
	}
	if lang == "zh-TW" && !ask[bool](p, `/[\u4e00-\u9fff]/.test(document.querySelector('main')?.innerText)`) {
		p.t.Error("nothing in Chinese in main")
	}
}

// light checks the weight of the page.
func (p *tab) light() {
	p.t.Helper()
	document, total := p.weight()
	p.t.Logf("%d bytes, of which %d the document", total, document)
	if document == 0 || total > maxWeight {
		p.t.Errorf("%d bytes are transferred, at most %d may be", total, maxWeight)
	}
}

// fits names the elements that make the page wider than the window.
func (p *tab) fits() {
	p.t.Helper()
	wide := ask[[]string](p, `(() => {
		const page = document.scrollingElement;
		if (page.scrollWidth <= innerWidth) return [];
		return [page.scrollWidth + " px"].concat([...document.querySelectorAll("body *")]
			.filter(e => e.getBoundingClientRect().right > innerWidth + 1)
			.filter(e => !e.parentElement.closest(".scroll, pre"))
			.slice(0, 6).map(e => e.outerHTML.slice(0, 120)));
	})()`)
	for _, w := range wide {
		p.t.Errorf("wider than the window: %s", w)
	}
}

// still: where the reader prefers reduced motion, nothing moves by itself.
func (p *tab) still() {
	p.t.Helper()
	for _, moving := range ask[[]string](p, `document.getAnimations().map(a => a.animationName ?? a.transitionProperty ?? a.id)
		.concat([...document.querySelectorAll("animate, animateMotion, animateTransform, set, marquee, video[autoplay]")].map(e => e.outerHTML.slice(0, 120)))
		.concat([...document.querySelectorAll("*")].filter(e => {
			const s = getComputedStyle(e);
			return (s.animationName !== "none" && parseFloat(s.animationDuration) > 0) ||
				s.transitionDuration.split(",").some(d => parseFloat(d) > 0) || s.scrollBehavior === "smooth";
		}).slice(0, 5).map(e => e.outerHTML.slice(0, 120)))`) {
		p.t.Errorf("moves: %s", moving)
	}
}
