package main

import (
	"fmt"
	"testing"
	"time"

	"outboxplayground/brokers"
	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// afterReturn is how late the last event may be once the broker is back: the longest
// wait of a probing relay, and a second for the way.
const afterReturn = 5 * time.Second

// A broker is away for half a minute: nothing is lost, nothing is stuck, no attempt is
// spent, and everything has arrived within five seconds of its return. All networked
// buses in ./infra/test full; without, one of them and three seconds.
func TestALongOutage(t *testing.T) {
	away, buses, chapters := 3*time.Second, []string{"redis"}, []int{6}
	if full() {
		away, buses, chapters = 30*time.Second, brokers.Names()[:4], []int{4, 5, 6}
	}
	b := newBench(t, buses...)
	for _, chapter := range chapters {
		t.Run(fmt.Sprint(chapter), func(t *testing.T) {
			for _, name := range buses {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					checkOutage(t, b.run(t, lab.Spec{Chapter: chapter, Bus: name, Fault: "broker-down", Outage: away}), away)
				})
			}
		})
	}
}

func checkOutage(t *testing.T, res lab.Result, away time.Duration) {
	t.Helper()
	measured(t, res, audit.Verdict{Orders: 47, Delivered: 47})
	if res.Report.Late != 35 || len(res.Report.Broken) != 1 {
		t.Fatalf("%d late, broken %v; want 35 and one outage", res.Report.Late, res.Report.Broken)
	}
	outage := res.Report.Broken[0]
	if d := outage.End.Sub(outage.Begin); d < away {
		t.Errorf("the outage lasted %v, want %v", d, away)
	}
	var last time.Time
	for _, e := range res.Trails {
		for _, m := range e.Trail.Emails {
			if m.SentAt.After(last) {
				last = m.SentAt
			}
		}
		if e.Trail.Outbox == nil || e.Trail.Outbox.Attempts != 0 {
			t.Errorf("order %d: %+v, want its row, with no attempt spent", e.Order, e.Trail.Outbox)
		}
	}
	late := last.Sub(outage.End)
	t.Logf("the last of 47 came %v after the return", late.Round(time.Millisecond))
	if late > afterReturn {
		t.Errorf("the last event came %v after the broker's return, want at most %v", late, afterReturn)
	}
}
