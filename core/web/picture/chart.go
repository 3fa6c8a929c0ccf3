package picture

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// Series is one line of a chart. NaN is a moment without a figure: the line has a gap.
type Series struct {
	Name   string
	Values []float64
}

// Chart draws figures over time, one line a series, each with a form and a dash of
// its own. times has a moment for every value; say how a figure is written in unit.
type Chart struct {
	ID, Title, Unit string
	Times           []time.Time
	Series          []Series
}

// The measures of a chart, in pixels.
const (
	chartW, chartH        = 720.0, 234.0
	chartLeft, chartRight = 56.0, 110.0
	chartTop, chartBottom = 28.0, 28.0
	chartMarks            = 8 // about so many marks a line
	chartSeries           = 5 // as many forms as there are
)

// SVG draws the chart; "" where there is nothing to draw.
func (ch Chart) SVG(say Say) template.HTML {
	if len(ch.Times) < 2 {
		return ""
	}
	c, top := &canvas{}, ch.top()
	ch.axes(c, top)
	var desc []string
	labels := map[int]bool{}
	for i, s := range ch.Series {
		ch.line(c, i, s, top, labels)
		if low, high, last, ok := span(s.Values); ok {
			desc = append(desc, say("picture.chart.desc", s.Name, figure(low), figure(high), figure(last)))
		}
	}
	return c.svg("chart", ch.ID, ch.Title, strings.Join(desc, " "), chartW, chartH)
}

// top is the upper end of the scale: 1, 2 or 5 times a power of ten.
func (ch Chart) top() float64 {
	high := 1.0
	for _, s := range ch.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				high = max(high, v)
			}
		}
	}
	power := math.Pow(10, math.Floor(math.Log10(high)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= high {
			return m * power
		}
	}
	return high
}

func span(values []float64) (low, high, last float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			low, high, last, ok = min(low, v), max(high, v), v, true
		}
	}
	return low, high, last, ok
}

// figure writes a number without needless decimals.
func figure(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

func (ch Chart) axes(c *canvas, top float64) {
	bottom, right := chartH-chartBottom, chartW-chartRight
	for i := range 3 {
		v := top * float64(i) / 2
		y := bottom - (bottom-chartTop)*v/top
		c.add(`<path class="chart-grid" d="M%.1f %.1fH%.1f"/>`, chartLeft, y, right)
		c.text("chart-text", chartLeft-8, y+4, "end", figure(v))
	}
	c.text("chart-text", 0, 11, "start", ch.Unit)
	first, last := ch.Times[0].UTC(), ch.Times[len(ch.Times)-1].UTC()
	c.text("chart-text", chartLeft, chartH-8, "start", first.Format(time.TimeOnly))
	c.text("chart-text", right, chartH-8, "end", last.Format(time.TimeOnly)+" UTC")
}

func (ch Chart) line(c *canvas, i int, s Series, top float64, labels map[int]bool) {
	bottom, right := chartH-chartBottom, chartW-chartRight
	first, all := ch.Times[0], ch.Times[len(ch.Times)-1].Sub(ch.Times[0])
	every := max(1, len(s.Values)/chartMarks)
	var path, marks strings.Builder
	pen, lastY := "M", math.NaN()
	for n, v := range s.Values {
		if math.IsNaN(v) || n >= len(ch.Times) {
			pen = "M"
			continue
		}
		x := chartLeft + (right-chartLeft)*float64(ch.Times[n].Sub(first))/float64(max(1, all))
		y := bottom - (bottom-chartTop)*v/top
		fmt.Fprintf(&path, "%s%.1f %.1f", pen, x, y)
		if (n+i)%every == 0 {
			marks.WriteString(mark(i, x, y))
		}
		pen, lastY = "L", y
	}
	if path.Len() == 0 {
		return
	}
	c.add(`<g class="series series-%d"><title>%s</title><path class="series-line" d="%s"/><path class="series-mark" d="%s"/>`,
		i%chartSeries+1, esc(s.Name), path.String(), marks.String())
	if !math.IsNaN(lastY) {
		y := lastY // labels of lines that end side by side stand below each other
		for labels[int(y)/14] {
			y -= 14
		}
		labels[int(y)/14] = true
		c.add(`<path class="series-mark" d="%s"/>`, mark(i, right+12, y))
		c.text("chart-text", right+22, y+4, "start", s.Name)
	}
	c.add(`</g>`)
}

// mark is the form of a series: square, diamond, triangle, cross, bar.
func mark(i int, x, y float64) string {
	form := []string{"m-3 -3h6v6h-6z", "m0 -4l4 4-4 4-4-4z", "m0 -4l4 7h-8z", "m-3 -3l6 6m0-6l-6 6", "m-4 0h8"}[i%chartSeries]
	return fmt.Sprintf("M%.1f %.1f%s", x, y, form)
}
