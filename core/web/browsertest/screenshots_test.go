package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// screenshots takes pictures of every page, for people to look at: both languages,
// both themes, a laptop's width and a phone's. Nothing is compared.
func (d *desk) screenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		t.Skip("pictures are taken where SCREENSHOTS names a folder")
	}
	for _, width := range []int64{1280, 390} {
		for _, lang := range []string{"en", "zh-TW"} {
			p := d.tab(t)
			p.width(width)
			for _, c := range d.pages() {
				for _, theme := range []string{"light", "dark"} {
					p.media("prefers-color-scheme", theme)
					p.open(withLang(d.path(c), lang))
					p.settled()
					p.picture(filepath.Join(dir, fmt.Sprintf("h-%s-%s-%s-%d.png", c.name, lang, theme, width)))
				}
			}
		}
	}
}

func (p *tab) picture(file string) {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o600); err != nil {
		p.t.Fatal(err)
	}
}
