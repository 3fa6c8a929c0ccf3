package picture

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// The story of the article: 12 of 47 are delivered.
func story() []string {
	return append(slices.Repeat([]string{"delivered"}, 12), slices.Repeat([]string{"lost"}, 35)...)
}

func TestEveryFateHasAShapeOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, f := range Fates() {
		if other, twice := seen[shape(f)]; twice {
			t.Errorf("%s looks like %s", f, other)
		}
		seen[shape(f)] = f
	}
}

func TestFateIsTheWorstThatHappened(t *testing.T) {
	of := func(order bool, v audit.Verdict) lab.EventTrail {
		e := lab.EventTrail{Trail: audit.Trail{Verdict: v}}
		if order {
			e.Trail.Order = &audit.Order{}
		}
		return e
	}
	for want, e := range map[string]lab.EventTrail{
		"duplicated": of(true, audit.Verdict{Orders: 1, Delivered: 1, Duplicated: 1}),
		"delivered":  of(true, audit.Verdict{Orders: 1, Delivered: 1}),
		"phantom":    of(false, audit.Verdict{Phantom: 1}),
		"stuck":      of(true, audit.Verdict{Orders: 1, Stuck: 1}),
		"refused":    of(false, audit.Verdict{}),
		"unknown":    of(true, audit.Verdict{Orders: 1}),
	} {
		if got := Fate(e); got != want {
			t.Errorf("%+v is %s, want %s", e.Trail.Verdict, got, want)
		}
	}
}

func TestBarsShareOneScale(t *testing.T) {
	svg := string(Bars(plain, "b", 47, Bar{Name: "predicted", Guess: true, Counts: []Count{{"delivered", 47}}},
		Bar{Name: "measured", Counts: CountFates(story())}))
	names, classes := elements(t, svg)
	if classes["bar"] != 3 || classes["is-guess"] != 1 || names["rect"] != 3 {
		t.Errorf("%v %v", names, classes)
	}
	if !strings.Contains(svg, `width="478.0"`) || !strings.Contains(svg, `width="120.6"`) { // 480 for 47, so 122.6 for 12, less the gap
		t.Errorf("the widths are not to scale:\n%s", svg)
	}
	if svg := string(Bars(plain, "b", 10, Bar{Counts: []Count{{"delivered", 20}}})); strings.Contains(svg, `width="958`) {
		t.Errorf("a prediction beyond the orders leaves the picture:\n%s", svg)
	}
}

func TestAChartHasALineASeriesAndGapsWhereNothingWasMeasured(t *testing.T) {
	ch := Chart{ID: "c", Title: "pending", Unit: "rows", Series: []Series{
		{"nats", []float64{0, 3, 40}}, {"redis", []float64{0, math.NaN(), 1.5}}, {"kafka", []float64{math.NaN(), math.NaN(), math.NaN()}}}}
	if ch.SVG(plain) != "" {
		t.Error("a chart without moments is drawn")
	}
	for i := range 3 {
		ch.Times = append(ch.Times, start().Add(time.Duration(i)*time.Second))
	}
	svg := string(ch.SVG(plain))
	_, classes := elements(t, svg)
	if classes["series"] != 2 || classes["series-line"] != 2 || classes["chart-grid"] != 3 || ch.top() != 50 {
		t.Errorf("%v, top %v", classes, ch.top())
	}
	if strings.Contains(svg, "NaN") || strings.Count(svg, "M") < 4 {
		t.Errorf("%s", svg)
	}
	if !strings.Contains(svg, "redis 0 1.5 1.5") {
		t.Error("the description does not tell the span of redis")
	}
}
