package lab

import (
	"testing"

	"outboxplayground/core/audit"
	"outboxplayground/core/fault"
)

// A race says no more than its runs do: a side that was not over may still duplicate.
func TestARaceOfWhichASideIsUnknownProvesNothing(t *testing.T) {
	proxy, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	rule, err := proxy.Inject(fault.Rule{Role: "bus", Kind: fault.Refuse})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := proxy.Dialer("bus")(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		c.Close()
		t.Fatal("not refused")
	}
	shared := newShared(proxy, 2)
	shared.rule = rule
	for valid, want := range map[audit.Validity]bool{audit.True: true, audit.False: true, audit.Unknown: false} {
		sides := []Result{{Report: Report{Valid: audit.False}}, {Report: Report{Valid: valid, Why: "not over"}}}
		if got := raceResult(RaceSpec{Bus: "nats"}, shared, sides); got.Conclusive != want {
			t.Errorf("%s: conclusive %v (%s)", valid, got.Conclusive, got.Note)
		}
	}
}
