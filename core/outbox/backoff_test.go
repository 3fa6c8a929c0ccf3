package outbox_test

import (
	"testing"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
)

func TestBackoffDoublesWithinItsJitterAndBound(t *testing.T) {
	b := outbox.Backoff{Base: time.Second, Max: 8 * time.Second, Jitter: 0.2}
	for n, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 8 * time.Second, 1 << 40: 8 * time.Second,
	} {
		low, high := time.Duration(float64(want)*0.8), min(time.Duration(float64(want)*1.2), b.Max)
		seen := map[time.Duration]bool{}
		for range 200 {
			d := b.Delay(n)
			if d < low || d > high {
				t.Fatalf("Delay(%d) = %v, want %v to %v", n, d, low, high)
			}
			seen[d] = true
		}
		if len(seen) < 50 {
			t.Errorf("Delay(%d) has %d values in 200: no jitter to speak of", n, len(seen))
		}
	}
}

func TestBackoffWithoutJitterIsExact(t *testing.T) {
	b := outbox.Backoff{Base: 250 * time.Millisecond, Max: 4 * time.Second}
	for n, want := range []time.Duration{250e6, 250e6, 500e6, 1e9, 2e9, 4e9, 4e9} {
		if d := b.Delay(n); d != want {
			t.Errorf("Delay(%d) = %v, want %v", n, d, want)
		}
	}
	if d := (outbox.Backoff{}).Delay(3); d != 0 {
		t.Errorf("the zero value waits %v", d)
	}
	if d := (outbox.Backoff{Base: time.Second}).Delay(1000); d <= 0 || d > 24*time.Hour {
		t.Errorf("without a bound the thousandth wait is %v", d)
	}
}

// The one table that matters most: what each kind of failure costs.
func TestPolicies(t *testing.T) {
	patient, polls := outbox.Patient{Backoff: outbox.Backoff{Base: time.Second}}, outbox.FivePolls{}
	tests := []struct {
		name   string
		policy outbox.Policy
		in     outbox.Failure
		want   outbox.Decision
	}{
		{"an outage costs nothing", patient, outbox.Failure{Class: bus.Unavailable, Attempts: 4, Alone: true}, outbox.Decision{Fate: outbox.Deferred, Probe: true}},
		{"nor in a batch", patient, outbox.Failure{Class: bus.Unavailable}, outbox.Decision{Fate: outbox.Deferred, Probe: true}},
		{"a destination that is away delays its row alone", patient, outbox.Failure{Class: bus.Unavailable, Attempts: 3, Partly: true}, outbox.Decision{Fate: outbox.Deferred, Delay: time.Second}},
		{"a rejection parks at once", patient, outbox.Failure{Class: bus.Rejected}, outbox.Decision{Fate: outbox.Parked}},
		{"doubt in a batch costs nothing", patient, outbox.Failure{Class: bus.Ambiguous, Attempts: 4}, outbox.Decision{Fate: outbox.Deferred, Probe: true}},
		{"doubt alone is an attempt", patient, outbox.Failure{Class: bus.Ambiguous, Alone: true}, outbox.Decision{Fate: outbox.Retried, Delay: time.Second, Probe: true}},
		{"the fourth waits 8 s", patient, outbox.Failure{Class: bus.Ambiguous, Attempts: 3, Alone: true}, outbox.Decision{Fate: outbox.Retried, Delay: 8 * time.Second, Probe: true}},
		{"the fifth parks", patient, outbox.Failure{Class: bus.Ambiguous, Attempts: 4, Alone: true}, outbox.Decision{Fate: outbox.Parked, Probe: true}},
		{"the article spends on an outage", polls, outbox.Failure{Class: bus.Unavailable, Attempts: 3}, outbox.Decision{Fate: outbox.Retried}},
		{"and on a rejection", polls, outbox.Failure{Class: bus.Rejected}, outbox.Decision{Fate: outbox.Retried}},
		{"and parks at five", polls, outbox.Failure{Class: bus.Unavailable, Attempts: 4}, outbox.Decision{Fate: outbox.Parked}},
	}
	for _, tt := range tests {
		if got := tt.policy.Decide(tt.in); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestPatientDefaults(t *testing.T) {
	for n, want := range []time.Duration{1e9, 2e9, 4e9, 8e9} {
		d := outbox.Patient{}.Decide(outbox.Failure{Class: bus.Ambiguous, Attempts: n, Alone: true})
		if d.Fate != outbox.Retried || d.Delay < want*8/10 || d.Delay > want*12/10 {
			t.Errorf("after %d attempts: %+v, want a wait of %v ± 20 %%", n, d, want)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]outbox.Config{
		"negative batch": {Batch: -1}, "huge batch": {Batch: 10_001}, "negative poll": {Poll: -1},
		"negative timeout": {PublishTimeout: -1}, "jitter": {Probe: outbox.Backoff{Jitter: 1.1}},
	} {
		if _, err := outbox.NewRelay(flaky{}, &batches{}, "nats", cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := outbox.NewRelay(nil, &batches{}, "nats", outbox.Config{}); err == nil {
		t.Error("without a database: no error")
	}
	if _, err := outbox.NewRelay(flaky{}, &batches{}, "nats", outbox.Config{}); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}
