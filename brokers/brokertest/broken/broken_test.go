package broken_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/brokers/brokertest/broken"
	"outboxplayground/brokers/brokertest/toy"
	"outboxplayground/core/bus"
)

// TestTheJudge lets the suite judge a healthy bus and each broken one. What it
// finds must be what is wrong, all of it and nothing else.
func TestTheJudge(t *testing.T) {
	healthy := broken.Breakage{Name: "healthy", Wrap: func(h broken.Healthy) broken.Healthy { return h }}
	for _, b := range append([]broken.Breakage{healthy}, broken.All()...) {
		t.Run(b.Name, func(t *testing.T) {
			found := judge(t, b)
			for _, rule := range b.Breaks {
				if found[rule] == nil {
					t.Errorf("rule %q is broken and was not found (%s)", rule, b.Why)
				}
			}
			for rule, vs := range found {
				if !slices.Contains(slices.Concat(b.Breaks, b.Also), rule) {
					t.Errorf("rule %q is not broken, and yet: %s", rule, vs[0])
				}
			}
			for _, vs := range found {
				first, _, _ := strings.Cut(vs[0].String(), "\n") // a panic brings its stack
				t.Logf("%d × %s", len(vs), first)
			}
		})
	}
}

// together is how many checks run side by side; most of their time is waiting.
const together = 4

// judge runs the whole suite, each check against a server of its own.
func judge(t *testing.T, b broken.Breakage) map[brokertest.Rule][]brokertest.Violation {
	var running errgroup.Group
	running.SetLimit(together)
	results := make(chan []brokertest.Violation, len(brokertest.Checks()))
	for _, c := range brokertest.Checks() {
		running.Go(func() error {
			s, err := toy.Start(t.Context())
			if err != nil {
				return err
			}
			defer s.Stop()
			h, f := bench(s, b)
			if c.Skip(h, f) == "" && (!costly(c) || b.Costly || b.Breaks == nil) {
				results <- c.Judge(t.Context(), h, f)
			}
			return nil
		})
	}
	if err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	close(results)
	found := map[brokertest.Rule][]brokertest.Violation{}
	for vs := range results {
		for _, v := range vs {
			found[v.Rule] = append(found[v.Rule], v)
		}
	}
	return found
}

// costly checks move many messages. They find nothing that another check does not,
// except a bus that fails one message in hundreds.
func costly(c brokertest.Check) bool {
	return c.Name == "many-at-once" || c.Name == "fifty-goroutines"
}

func bench(s *toy.Server, b broken.Breakage) (brokertest.Harness, brokertest.Features) {
	return brokertest.Harness{
			Name: b.Name,
			Mode: "fake",
			Open: func(_ context.Context, c bus.Config) (bus.Bus, error) {
				return b.Wrap(toy.Open(s, c)), nil
			},
			Crash:   s.Crash,
			Restart: s.Restart,
		}, brokertest.Features{
			Ordered:          brokertest.PerTopic,
			Durable:          true,
			Networked:        true,
			RedeliveryWithin: 100 * time.Millisecond,
			Oversized:        toy.MaxBytes + 1,
			Patience:         3 * time.Second,
		}
}
