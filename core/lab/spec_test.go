package lab

import (
	"errors"
	"strings"
	"testing"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// testChapters are a naive chapter with two variants and one with an outbox.
func testChapters() []Chapter {
	relay := func(Deps) Runner { return nil }
	consumer := func(Deps) bus.Handler { return nil }
	return []Chapter{
		{Number: 1, Topic: "plain", Variants: []Variant{{Name: "write-first", Consumer: consumer}, {Name: "publish-first", Consumer: consumer}}},
		{Number: 3, Topic: "safe", Outbox: true, Variants: []Variant{{Name: "outbox", Relay: relay, Consumer: consumer}}},
	}
}

func TestCheckRefusesWhatNoRunCanDo(t *testing.T) {
	good := Spec{Chapter: 1, Bus: "nats", Fault: "rollback", Orders: 47}
	for _, c := range []struct {
		name   string
		change func(*Spec)
		says   string
		na     bool
	}{
		{name: "chapter", change: func(s *Spec) { s.Chapter = 2 }, says: "no chapter 2"},
		{name: "variant", change: func(s *Spec) { s.Variant = "x" }, says: "it has write-first, publish-first"},
		{name: "another chapter's variant", change: func(s *Spec) { s.Variant = "outbox" }, says: "chapter 1 has no variant"},
		{name: "fault", change: func(s *Spec) { s.Fault = "fire" }, says: "none, rollback, broker-down"},
		{name: "negative orders", change: func(s *Spec) { s.Orders = -1 }, says: "1 to 2000"},
		{name: "too many orders", change: func(s *Spec) { s.Orders = 2001 }, says: "1 to 2000"},
		{name: "negative outage", change: func(s *Spec) { s.Outage = -time.Second }, says: "at most 5m0s"},
		{name: "too long an outage", change: func(s *Spec) { s.Outage = 5*time.Minute + 1 }, says: "at most 5m0s"},
		{name: "no relay", change: func(s *Spec) { s.Fault = "two-relays" }, says: "no relay", na: true},
		{name: "no network", change: func(s *Spec) { s.Fault, s.Bus = "broker-down", "inmemory" }, says: "no connection", na: true},
		{name: "one process", change: func(s *Spec) { s.Chapter, s.Fault, s.Bus = 3, "zombie-relay", "inmemory" }, says: "share the one process", na: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good
			c.change(&s)
			err := s.Check(testChapters())
			if !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: %v, want ErrSpec saying %q", s, err, c.says)
			}
			if errors.Is(err, ErrNotApplicable) != c.na {
				t.Errorf("does not apply: %v, want %v: %v", !c.na, c.na, err)
			}
		})
	}
	for _, s := range []Spec{good, {Chapter: 1, Bus: "nats"}, {Chapter: 3, Bus: "inmemory", Fault: "two-relays"},
		{Chapter: 1, Bus: "nats", Orders: 1}, {Chapter: 1, Bus: "nats", Orders: 2000, Outage: 5 * time.Minute}} {
		if err := s.Check(testChapters()); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	s := Spec{Chapter: 1, Bus: "nats"}.withDefaults()
	if s.Orders != 47 || s.Fault != "none" || !s.standard() {
		t.Errorf("%+v", s)
	}
	for _, other := range []Spec{{Orders: 46}, {Orders: 47, Seed: 1}, {Orders: 47, Outage: 1}} {
		if other.standard() {
			t.Errorf("%+v compares with a declaration", other)
		}
	}
}

func TestWhereAFaultStrikes(t *testing.T) {
	for _, c := range []struct {
		fault    string
		orders   int
		from, to int
	}{
		{"rollback", 47, 13, 13}, {"broker-down", 47, 13, 47}, {"broker-down", 13, 13, 13}, {"broker-down", 12, 13, 13},
		{"db-down", 47, 13, 20}, {"db-down", 15, 13, 15}, {"db-down", 3, 13, 13}, {"poison", 2000, 13, 13},
	} {
		f, _ := FaultNamed(c.fault)
		if got := (Spec{Orders: c.orders}).place(f); got != (span{c.from, c.to}) {
			t.Errorf("%s in %d orders strikes %+v, want %d to %d", c.fault, c.orders, got, c.from, c.to)
		}
	}
}

func TestASeedMovesTheFault(t *testing.T) {
	f, _ := FaultNamed("broker-down")
	seen := map[int]bool{}
	for seed := uint64(1); seed <= 200; seed++ {
		s := Spec{Orders: 47, Seed: seed}
		at := s.place(f)
		if at != s.place(f) {
			t.Fatalf("seed %d is not one place", seed)
		}
		if at.from < 1 || at.from > 47 || at.to != 47 {
			t.Fatalf("seed %d strikes %+v", seed, at)
		}
		seen[at.from] = true
	}
	if len(seen) < 30 {
		t.Errorf("200 seeds move the fault to %d places only", len(seen))
	}
	one, _ := FaultNamed("rollback")
	if at := (Spec{Orders: 1, Seed: 99}).place(one); at != (span{1, 1}) {
		t.Errorf("in a run of one order a seed strikes %+v", at)
	}
}

// The table of what does not exist where, in full.
func TestNotApplicable(t *testing.T) {
	chapters := testChapters()
	relayOnly := map[string]bool{"relay-killed": true, "crash-after-mark": true, "two-relays": true, "zombie-relay": true}
	networkOnly := map[string]bool{"broker-down": true, "broker-slow": true, "ack-lost": true, "zombie-relay": true}
	if n := len(Faults()); n != 15 {
		t.Errorf("%d faults, want 15", n)
	}
	for _, f := range Faults() {
		if f.What.En == "" || f.What.ZhTW == "" || f.plot == nil {
			t.Errorf("%s is not told in both languages, or has no plot", f.Name)
		}
		for _, c := range chapters {
			for _, b := range []string{"rabbitmq", "kafka", "nats", "redis", "inmemory"} {
				want := relayOnly[f.Name] && !c.Outbox || networkOnly[f.Name] && b == "inmemory"
				if why := f.NotApplicable(c, b); (why != "") != want {
					t.Errorf("%s on %s in chapter %d: %q", f.Name, b, c.Number, why)
				}
			}
		}
	}
}

func TestKillAtIsAFaultOfItsOwn(t *testing.T) {
	f := KillAt("x", Relaying, checkpoint.Claimed)
	if f.NotApplicable(testChapters()[0], "nats") == "" || f.NotApplicable(testChapters()[1], "nats") != "" {
		t.Error("a kill of the relay needs a relay, and nothing else")
	}
	s := Spec{Chapter: 3, Bus: "nats", Fault: "x", Orders: 47}
	if _, _, _, err := s.check(testChapters(), append(Faults(), f)); err != nil {
		t.Error(err)
	}
	if err := s.Check(testChapters()); !errors.Is(err, ErrSpec) {
		t.Errorf("a fault that only one lab knows is accepted everywhere: %v", err)
	}
}
