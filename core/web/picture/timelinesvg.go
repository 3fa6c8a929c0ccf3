package picture

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// The measures of a timeline, in pixels.
const (
	tlTop    = 46.0 // the axis
	tlLane   = 46.0
	tlBottom = 8.0
	tlLeft   = 16.0
	tlEnd    = 118.0 // the last column
	tlWide   = 860.0 // of the steps together, where that needs no more than tlAir each
	tlAir    = 70.0
)

func laneY(i int) float64          { return tlTop + tlLane*(float64(i)+.5) }
func (t Timeline) height() float64 { return tlTop + tlLane*float64(len(t.lanes)) + tlBottom }
func (t Timeline) y(key string) float64 {
	for i, l := range t.lanes {
		if l == key {
			return laneY(i)
		}
	}
	return laneY(0)
}

// column is where a step stands.
type column struct{ x, left, right float64 }

// columns places the steps: as wide as their words need, wider where there are few of
// them; a long silence is a narrow gap of its own.
func (t Timeline) columns() (cols []column, end float64) {
	natural := tlLeft
	for _, s := range t.Steps {
		natural += t.gapWidth(s) + stepWidth(s)
	}
	air := min(tlAir, max(0, (tlWide-natural)/float64(max(1, len(t.Steps)))))
	x := tlLeft
	for _, s := range t.Steps {
		x += t.gapWidth(s)
		w := stepWidth(s) + air
		cols = append(cols, column{x: x + 12, left: x, right: x + w})
		x += w
	}
	return cols, x
}

func stepWidth(s Step) float64 { return max(58, width(s.Word)+26, width(s.When())+16) }

func (t Timeline) gapWidth(s Step) float64 {
	if s.Gap == 0 {
		return 0
	}
	return width(t.say("picture.gap", s.Silence())) + 10
}

// SVG draws the timeline.
func (t Timeline) SVG() template.HTML {
	c := &canvas{}
	cols, end := t.columns()
	w := end + tlEnd
	t.drawLanes(c, cols, end, w)
	for i, d := range t.downs {
		t.drawDown(c, d, cols, end, i)
	}
	for i, s := range t.Steps {
		t.drawStep(c, i, s, cols[i])
	}
	t.drawEnd(c, end)
	var desc strings.Builder
	for _, s := range t.Steps {
		fmt.Fprintf(&desc, "%s: %s ", s.When(), s.Tell)
	}
	desc.WriteString(t.End.Tell)
	return c.svg("tl", t.ID, t.Title, desc.String(), w, t.height())
}

func (t Timeline) drawLanes(c *canvas, cols []column, end, w float64) {
	c.add(`<defs><pattern id="%s-hatch" class="tl-hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V7"/></pattern></defs>`, t.ID)
	for i := range t.lanes {
		c.add(`<path class="tl-line" d="M0 %.1fH%.1f"/>`, laneY(i), w)
	}
	for i, s := range t.Steps {
		if s.Gap == 0 || i == 0 {
			continue
		}
		from, to := cols[i-1].right, cols[i].left
		c.add(`<rect class="tl-gap" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, from, tlTop-6, to-from, t.height()-tlTop-tlBottom+6)
		c.text("tl-time tl-silence", (from+to)/2, 16, "middle", t.say("picture.gap", s.Silence()))
	}
	t.drawRow(c, laneOrders, cols, end)
	t.drawRow(c, laneOutbox, cols, end)
}

// drawRow thickens a table's lane where its row exists: from the commit to the end,
// dashed while an outbox row waits.
func (t Timeline) drawRow(c *canvas, key string, cols []column, end float64) {
	if t.End.at[key].said == "" || t.End.at[key].sign == Open {
		return
	}
	for i, s := range t.Steps {
		if s.Sign != Done || s.From != laneService || s.To == laneClient || s.To == laneBroker {
			continue
		}
		sent := end
		if key == laneOutbox {
			if !t.sentAt.IsZero() {
				sent = t.xAt(t.sentAt, cols, end)
			}
			c.add(`<path class="tl-row is-waiting" d="M%.1f %.1fH%.1f"/>`, cols[i].x, t.y(key), sent)
		}
		if key == laneOrders || !t.sentAt.IsZero() {
			from := cols[i].x
			if key == laneOutbox {
				from = sent
			}
			c.add(`<path class="tl-row" d="M%.1f %.1fH%.1f"/>`, from, t.y(key), end+10)
		}
		return
	}
}

// xAt is where a moment is: on a step, or between two in proportion.
func (t Timeline) xAt(at time.Time, cols []column, end float64) float64 {
	if len(cols) == 0 || at.Before(t.Steps[0].At) {
		return 0
	}
	for i := 1; i < len(cols); i++ {
		if span := t.Steps[i].At.Sub(t.Steps[i-1].At); at.Before(t.Steps[i].At) && span > 0 {
			share := float64(at.Sub(t.Steps[i-1].At)) / float64(span)
			return cols[i-1].x + share*(cols[i].x-cols[i-1].x)
		}
	}
	last := len(cols) - 1
	beyond := at.Sub(t.Steps[last].At)
	return cols[last].x + (end-cols[last].x)*math.Min(1, float64(beyond)/float64(100*time.Millisecond))
}

func (t Timeline) drawDown(c *canvas, d down, cols []column, end float64, n int) {
	from, to := t.xAt(d.begin, cols, end), end
	if !d.end.IsZero() {
		to = math.Max(from+14, t.xAt(d.end, cols, end))
	}
	y := t.y(d.lane)
	c.add(`<g class="tl-down"><rect x="%.1f" y="%.1f" width="%.1f" height="20" rx="3"/><rect fill="url(#%s-hatch)" x="%.1f" y="%.1f" width="%.1f" height="20" rx="3"/>`,
		from, y-10, to-from, t.ID, from, y-10, to-from)
	if to-from > width(d.said)+20 {
		c.text("tl-word tl-downword", (from+to)/2, y+22, "middle", d.said)
	}
	c.add(`<title>%s</title></g>`, esc(d.said))
}

func (t Timeline) drawStep(c *canvas, i int, s Step, col column) {
	from, to := t.y(s.From), t.y(s.To)
	c.add(`<g class="tl-step is-%s" id="%s-%d" data-step="%d"><title>%s</title>`, s.Sign, t.ID, i+1, i+1, esc(s.Tell))
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
