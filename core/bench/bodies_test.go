package bench_test

import (
	"strings"
	"testing"
	"time"

	"outboxplayground/core/bench"
)

// The bodies of the benchmarks: each measures once and reports through metric. The
// tests run them with tiny sizes, because CI runs tests and no benchmarks.

func quietly(string) {}

func drainBody(tb testing.TB, rows int, metric func(float64, string)) {
	c := config(tb, "inmemory")
	c.Rows, c.Workers, c.Batch = rows, 1, 500
	d, err := bench.Drain(tb.Context(), c, quietly)
	if err != nil {
		tb.Fatal(err)
	}
	metric(d.EventsPerSecond, "events/s")
	metric(d.EventsPerSecond/d.ReferencePerSecond, "of-reference")
	if d.Lost+d.Duplicated+d.Stuck != 0 {
		tb.Errorf("%+v", d)
	}
}

func latencyBody(tb testing.TB, rows int, metric func(float64, string)) {
	c := config(tb, "inmemory")
	c.Rows = rows
	d, err := bench.Latency(tb.Context(), c, bench.Load{Rate: 500, Waker: bench.Wake(), Rest: 10 * time.Millisecond}, quietly)
	if err != nil {
		tb.Fatal(err)
	}
	metric(d.P50, "p50-ms")
	metric(d.P99, "p99-ms")
	if d.Lost+d.Duplicated+d.Stuck != 0 || d.P50 <= 0 || d.P50 > d.P99 || d.P99 > d.Max {
		tb.Errorf("%+v", d)
	}
}

func claimBody(tb testing.TB, rows int, metric func(float64, string)) {
	g := bench.Growth{Sent: []int{rows}, Pending: []int{100}, Loops: 3}
	cells := 0
	err := bench.Claim(tb.Context(), config(tb, "inmemory"), g, quietly, func(c bench.Claimed) error {
		cells++
		metric(c.P50, strings.ReplaceAll(c.Claim, " ", "-")+"-p50-ms")
		if c.P50 <= 0 || c.Max < c.P50 || c.Sent != rows || c.Pending != 100 {
			tb.Errorf("%+v", c)
		}
		return nil
	})
	if err != nil || cells != 3 {
		tb.Fatalf("%d cells, %v", cells, err)
	}
}

func snapshotBody(tb testing.TB, _ int, metric func(float64, string)) {
	phases := map[string]int{}
	err := bench.Snapshot(tb.Context(), config(tb, "inmemory"), 100*time.Millisecond, quietly, func(w bench.Window) error {
		phases[w.Claim+" "+w.Phase]++
		if w.Phase == "held" {
			metric(w.OfBefore, "of-before")
		}
		if w.Rows == 0 || w.EventsPerSecond <= 0 || w.OfBefore <= 0 {
			tb.Errorf("%+v", w)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range []string{"cursor before", "cursor held", "cursor after", "from 0 before", "from 0 held", "from 0 after"} {
		if phases[p] == 0 {
			tb.Errorf("no window %q in %v", p, phases)
		}
	}
}

func producerBody(tb testing.TB, rows int, metric func(float64, string)) {
	c, forms := config(tb, "inmemory"), map[string]bool{}
	c.Rows = rows
	err := bench.Produce(tb.Context(), c, 2, quietly, func(p bench.Produced) error {
		forms[p.Form] = true
		metric(p.OrdersPerSecond, "orders/s")
		if p.Lost+p.Duplicated != 0 || p.OrdersPerSecond <= 0 || p.P50 <= 0 || p.Rows != rows {
			tb.Errorf("%+v", p)
		}
		return nil
	})
	if err != nil || len(forms) != 4 {
		tb.Fatalf("%v, %v", forms, err)
	}
}

func TestEveryBenchmarkOnce(t *testing.T) {
	for name, body := range map[string]func(testing.TB, int, func(float64, string)){
		"drain": drainBody, "latency": latencyBody, "claim": claimBody, "snapshot": snapshotBody, "producer": producerBody,
	} {
		t.Run(name, func(t *testing.T) {
			reported := 0
			body(t, 40, func(v float64, unit string) {
				reported++
				t.Logf("%g %s", v, unit)
			})
			if reported == 0 {
				t.Error("it reports nothing")
			}
		})
	}
}

func BenchmarkDrain(b *testing.B) {
	for b.Loop() {
		drainBody(b, 2000, b.ReportMetric)
	}
}

func BenchmarkLatency(b *testing.B) {
	for b.Loop() {
		latencyBody(b, 250, b.ReportMetric)
	}
}

func BenchmarkClaim(b *testing.B) {
	for b.Loop() {
		claimBody(b, 10_000, b.ReportMetric)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for b.Loop() {
		snapshotBody(b, 0, b.ReportMetric)
	}
}

func BenchmarkProducer(b *testing.B) {
	for b.Loop() {
		producerBody(b, 500, b.ReportMetric)
	}
}
