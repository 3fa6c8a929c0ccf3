package lab

import (
	"testing"
	"time"
)

func TestWhatWasBrokenIsToldInOrder(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	r := &run{spec: Spec{Bus: "nats"}, journal: newJournal(),
		stopped: []Stretch{{What: "SIGSTOP", Where: Relaying, Begin: at(9), End: at(10)}},
		outages: []outageSpan{{"broker-down", at(1), at(3)}, {"db-down", at(2), time.Time{}}}}
	for _, l := range []Line{
		{At: at(0), Label: Producing, Step: sayReady}, // the first life, before the death
		{At: at(4), Label: Producing, Step: sayKilled},
		{At: at(5), Label: Consuming, Step: sayReady}, // somebody else's
		{At: at(6), Label: Producing, Step: sayReady},
		{At: at(8), Label: Producing, Step: sayReady},
	} {
		r.journal.add(l)
	}
	want := []Stretch{
		{"broker-down", AtBroker, at(1).UTC(), at(3).UTC()},
		{"db-down", AtDatabase, at(2).UTC(), time.Time{}},
		{"SIGKILL", Producing, at(4).UTC(), at(6).UTC()},
		{"SIGSTOP", Relaying, at(9), at(10)},
	}
	got := r.stretches()
	if len(got) != len(want) {
		t.Fatalf("%d stretches, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestInMemoryEverythingDiesWithTheProcess(t *testing.T) {
	r := &run{spec: Spec{Bus: "inmemory"}, journal: newJournal()}
	r.journal.add(Line{At: time.Unix(1, 0), Label: Consuming, Step: sayKilled})
	got := map[string]bool{}
	for _, b := range r.stretches() {
		got[b.Where] = b.End.IsZero()
	}
	if len(got) != 3 || !got[AtBroker] || !got[Producing] || !got[Consuming] {
		t.Errorf("broken without an end: %v; want broker, producer and consumer", got)
	}
}
