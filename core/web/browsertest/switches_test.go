package browsertest

import (
	"slices"
	"testing"
)

// switches: language, theme and projector mode are one press each, stay when the
// reader goes elsewhere, and can be undone.
func (d *desk) switches(t *testing.T) {
	p := d.tab(t)
	d.switchAll(p)
}

// switchAll is done with and without JavaScript.
func (d *desk) switchAll(p *tab) {
	p.t.Helper()
	p.media("prefers-color-scheme", "light")
	p.open("/")
	p.click("button[name=lang][value=zh-TW]")
	p.until("the page in Chinese", "document.documentElement.lang === 'zh-TW'")
	p.click("button[name=theme][value=dark]")
	p.until("the dark theme", "document.documentElement.dataset.theme === 'dark'")
	if !ask[bool](p, darkGround) {
		p.t.Error("the dark theme has a light ground")
	}
	p.click("button[name=view][value=projector]")
	p.until("the projector's type", "document.documentElement.dataset.view === 'projector' && parseFloat(getComputedStyle(document.documentElement).fontSize) >= 20")
	p.open("/buses")
	p.until("the switches to stand where they were", "document.documentElement.lang === 'zh-TW' && document.documentElement.dataset.theme === 'dark' && document.documentElement.dataset.view === 'projector'")
	p.click("button[name=view][value=screen]")
	p.until("the screen's type", "!document.documentElement.dataset.view")
	p.click("button[name=theme][value=auto]")
	p.until("the machine's theme", "!document.documentElement.dataset.theme")
	if ask[bool](p, darkGround) {
		p.t.Error("the machine's theme is light, the ground is not")
	}
	p.click("button[name=lang][value=en]")
	p.until("the page in English", "document.documentElement.lang === 'en'")
}

// darkGround adds up red, green and blue of the background.
const darkGround = `getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) < 200`

// projector: large type and high contrast (7 to 1) on what a class is shown, and nothing
// is cut off.
func (d *desk) projector(t *testing.T) {
	p, axe := d.tab(t), axe(t)
	p.open("/")
	p.click("button[name=view][value=projector]")
	p.until("the projector's type", "document.documentElement.dataset.view === 'projector'")
	shown := []string{"contents", "chapter-1-run", "guarantees-1", "event-lost", "compare", "metrics"}
	for _, c := range d.pages() {
		if !slices.Contains(shown, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			p := p.in(t)
			p.open(d.path(c))
			p.settled()
			p.fits()
			p.accessible(axe, "color-contrast-enhanced")
		})
	}
}
