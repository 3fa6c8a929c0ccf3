package picture

import (
	"fmt"
	"html/template"
	"strings"
)

// Count is how many orders have one fate.
type Count struct {
	Fate string
	N    int
}

// CountFates counts in the order of the legend; fates that nobody has are left out.
func CountFates(fates []string) (counts []Count) {
	n := map[string]int{}
	for _, f := range fates {
		n[f]++
	}
	for _, f := range Fates() {
		if n[f] > 0 {
			counts = append(counts, Count{f, n[f]})
		}
	}
	return counts
}

// inWords lists counts as a sentence.
func inWords(say Say, counts []Count) string {
	said := make([]string, len(counts))
	for i, c := range counts {
		said[i] = fmt.Sprintf("%d %s", c.N, say("outcome."+c.Fate))
	}
	return strings.Join(said, ", ")
}

// Bar is one line of Bars.
type Bar struct {
	Name   string
	Counts []Count
	Guess  bool // a prediction: drawn as an outline
}

// Bars draws lines of stacked counts on one scale, of so many orders.
func Bars(say Say, id string, total int, bars ...Bar) template.HTML {
	const left, full, high, step = 84.0, 480.0, 26.0, 40.0
	c := &canvas{}
	var desc []string
	scale := total
	for _, b := range bars {
		sum := 0
		for _, part := range b.Counts {
			sum += part.N
		}
		scale = max(scale, sum)
	}
	for i, b := range bars {
		x, y := left, float64(i)*step+4
		c.text("bar-name", 0, y+high/2+4, "start", b.Name)
		class := "bar"
		if b.Guess {
			class = "bar is-guess"
		}
		for _, part := range b.Counts {
			if part.N == 0 {
				continue
			}
			w := full * float64(part.N) / float64(max(1, scale))
			c.add(`<g class="%s is-%s"><title>%d %s</title><rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="3"/>`,
				class, part.Fate, part.N, esc(say("outcome."+part.Fate)), x, y, max(2, w-2), high)
			if label := fmt.Sprint(part.N); w > 34+width(label) {
				c.add(`<path d="%s" transform="translate(%.1f %.1f)"/>`, shape(part.Fate), x+7, y+5)
				c.text("bar-count", x+28, y+high/2+5, "start", label)
			} else if w > width(label)+6 {
				c.text("bar-count", x+w/2, y+high/2+5, "middle", label)
			}
			c.add(`</g>`)
			x += w
		}
		desc = append(desc, b.Name+": "+inWords(say, b.Counts))
	}
	return c.svg("bars", id, say("picture.bars.title"), say("picture.bars.desc", total, strings.Join(desc, "; ")+"."),
		left+full+4, float64(len(bars))*step)
}
