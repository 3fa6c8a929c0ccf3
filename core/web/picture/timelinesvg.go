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
