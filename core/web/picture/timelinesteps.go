package picture

import (
	"math"
	"strings"
)

func (t Timeline) drawStep(c *canvas, i int, s Step, col column) {
	from, to := t.y(s.From), t.y(s.To)
	c.add(`<g class="tl-step is-%s" id="%s-%d" data-step="%d"><title>%s</title>`, s.Sign, t.ID, i+1, i+1, esc(strings.TrimSpace(s.Tell+"\n"+s.Raw)))
	c.add(`<rect class="tl-hit" x="%.1f" y="2" width="%.1f" height="%.1f" rx="5"/>`, col.left, col.right-col.left, t.height()-4)
	c.text("tl-time", col.left+4, 34, "start", s.When())
	if from != to {
		tip := to - math.Copysign(7, to-from)
		c.add(`<path class="tl-arrow" d="M%.1f %.1fV%.1f"/><path class="tl-tip" d="M%.1f %.1fl-4 %.1fh8z"/>`,
			col.x, from, tip, col.x, tip+math.Copysign(2, to-from), -math.Copysign(7, to-from))
		c.add(`<circle class="tl-dot" cx="%.1f" cy="%.1f" r="3"/>`, col.x, from)
	}
	drawSign(c, s.Sign, col.x, to)
	for _, key := range s.Also {
		drawSign(c, s.Sign, col.x, t.y(key))
	}
	c.text("tl-word", col.x+10, to-11, "start", s.Word)
	c.add(`</g>`)
}

// drawSign draws a step's mark: each its own form.
func drawSign(c *canvas, sign Sign, x, y float64) {
	switch sign {
	case Done:
		c.add(`<circle class="tl-mark" cx="%.1f" cy="%.1f" r="5"/>`, x, y)
	case Open:
		c.add(`<circle class="tl-mark" cx="%.1f" cy="%.1f" r="4.5"/>`, x, y)
	case Email:
		c.add(`<path class="tl-mark" d="M%.1f %.1fh14v10h-14zl7 5.5 7-5.5"/>`, x-7, y-5)
	case Death:
		c.add(`<path class="tl-mark" d="M%.1f %.1fl14 14m0 -14l-14 14"/>`, x-7, y-7)
	default:
		c.add(`<path class="tl-mark" d="M%.1f %.1fl10 10m0 -10l-10 10"/>`, x-5, y-5)
	}
}

func (t Timeline) drawEnd(c *canvas, x float64) {
	c.add(`<g class="tl-end is-%s"><path class="tl-border" d="M%.1f %.1fV%.1f"/>`, t.End.Word, x+4, 22.0, t.height()-4)
	c.text("tl-time", x+12, 34, "start", t.say("picture.end"))
	for _, l := range t.lanes {
		m, ok := t.End.at[l]
		if !ok {
			continue
		}
		c.add(`<g class="is-%s">`, m.sign)
		drawSign(c, m.sign, x+16, t.y(l))
		c.text("tl-word", x+28, t.y(l)+4, "start", m.said)
		c.add(`</g>`)
	}
	c.add(`</g>`)
}
