package web

import (
	"html/template"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
	"outboxplayground/core/web/page"
	"outboxplayground/core/web/picture"
)

// metricsPage shows the figures now, and how they have moved.
type metricsPage struct {
	metricsAnswer
	Chapters []lab.Chapter // those with an outbox
	Buses    []busFigures
	Charts   []metricsChart
	Prom     string
	Curl     string
	Samples  int
}

// busFigures are one bus's counts now.
type busFigures struct {
	Name string
	outbox.Counts
}

// metricsChart is a figure over time, with the rows of its table.
type metricsChart struct {
	Key  string // of the words: pending, lag, rate
	SVG  template.HTML
	Rows []metricsRow
}

// metricsRow are the figures of all buses at one moment.
type metricsRow struct {
	At    time.Time
	Cells []string
}

// tableRows is how many moments a chart's table lists.
const tableRows = 10

// showMetrics answers with the figures as a page.
func (s *server) showMetrics(c *gin.Context, ch lab.Chapter, a *metricsAnswer) {
	chapter := strconv.Itoa(ch.Number)
	d := &metricsPage{metricsAnswer: *a, Curl: curl(c, http.MethodGet, "/metrics", "chapter", chapter),
		Prom: `curl -s -H "Accept: text/plain;version=0.0.4" "` + base(c) + "/metrics?chapter=" + chapter + `"`}
	for _, other := range s.live.Chapters() {
		if other.Outbox {
			d.Chapters = append(d.Chapters, other)
		}
	}
	names := []string{}
	for _, b := range s.live.Buses() {
		names = append(names, b.Name)
		d.Buses = append(d.Buses, busFigures{b.Name, a.Reliability.Outbox.ByBus[b.Name]})
	}
	samples := s.opt.Sampler.of(ch.Number)
	d.Samples = len(samples)
	say := s.plain(c)
	for _, m := range []struct {
		key  string
		read func(before, now sample, bus string) float64
	}{{"pending", pendingOf}, {"lag", lagOf}, {"rate", rateOf}} {
		d.Charts = append(d.Charts, chartOf(say, m.key, names, samples, m.read))
	}
	v := page.View{Title: s.say(c, "metrics.title"), Nav: "/metrics", Data: d, Wide: true, Scripts: []string{"metrics.js"}, Refresh: 5}
	s.show(c, http.StatusOK, "metrics", v)
}

func pendingOf(_, now sample, bus string) float64 { return float64(now.stats.ByBus[bus].Pending) }

// lagOf is in seconds; none is waiting where there is no lag.
func lagOf(_, now sample, bus string) float64 {
	if lag := now.stats.ByBus[bus].OldestPendingLagMS; lag != nil {
		return float64(*lag) / 1000
	}
	return 0
}

// rateOf is how many rows were marked as sent each second since the sample before. A
// count that has become smaller tells nothing: rows were removed.
func rateOf(before, now sample, bus string) float64 {
	span := now.at.Sub(before.at).Seconds()
	sent := now.stats.ByBus[bus].Sent - before.stats.ByBus[bus].Sent
	if span <= 0 || sent < 0 || before.at.IsZero() {
		return math.NaN()
	}
	return float64(sent) / span
}

func chartOf(say picture.Say, key string, buses []string, samples []sample, read func(before, now sample, bus string) float64) metricsChart {
	ch := picture.Chart{ID: "chart-" + key, Title: say("metrics." + key), Unit: say("metrics.unit." + key)}
	for _, b := range buses {
		ch.Series = append(ch.Series, picture.Series{Name: b})
	}
	m := metricsChart{Key: key}
	var before sample
	for _, now := range samples {
		ch.Times = append(ch.Times, now.at)
		row := metricsRow{At: now.at}
		for i, b := range buses {
			v := read(before, now, b)
			ch.Series[i].Values = append(ch.Series[i].Values, v)
			row.Cells = append(row.Cells, cellText(v))
		}
		m.Rows = append(m.Rows, row)
		before = now
	}
	m.Rows = m.Rows[max(0, len(m.Rows)-tableRows):]
	m.SVG = ch.SVG(say)
	return m
}

func cellText(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}
