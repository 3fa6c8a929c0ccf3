package broken_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/brokers/brokertest/broken"
	"outboxplayground/brokers/brokertest/toy"
	"outboxplayground/core/bus"
)

// TestTheJudge lets the suite judge a healthy bus and each broken one. What is
// wrong must be found. Whether nothing else is found, too, takes the whole suite
// for every bus on a machine that is not busy: ./infra/test full asks that.
func TestTheJudge(t *testing.T) {
	full := os.Getenv("OUTBOX_PLAYGROUND_TEST") == "full"
	healthy := broken.Breakage{Name: "healthy", Wrap: func(h broken.Healthy) broken.Healthy { return h }}
	for _, b := range append([]broken.Breakage{healthy}, broken.All()...) {
		t.Run(b.Name, func(t *testing.T) {
			found := judge(t, b, full || b.Breaks == nil)
			for _, rule := range b.Breaks {
				if found[rule] == nil {
					t.Errorf("rule %q is broken and was not found (%s)", rule, b.Why)
				}
			}
			for rule, vs := range found {
				if (full || b.Breaks == nil) && !slices.Contains(slices.Concat(b.Breaks, b.Also), rule) {
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

// findings are what the checks of one bus have found so far.
type findings struct {
	mu    sync.Mutex
	found map[brokertest.Rule][]brokertest.Violation
}

func (f *findings) add(vs []brokertest.Violation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range vs {
		f.found[v.Rule] = append(f.found[v.Rule], v)
	}
}

// all tells whether each of the rules has been found broken.
func (f *findings) all(rules []brokertest.Rule) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rules {
		if f.found[r] == nil {
			return false
		}
	}
	return true
}

// judge runs the suite, each check against a server of its own: all of it, or until
// all that is wrong has been found.
func judge(t *testing.T, b broken.Breakage, all bool) map[brokertest.Rule][]brokertest.Violation {
	var running errgroup.Group
	running.SetLimit(together)
	f := &findings{found: map[brokertest.Rule][]brokertest.Violation{}}
	for _, c := range brokertest.Checks() {
		running.Go(func() error {
			if !all && f.all(b.Breaks) {
				return nil
			}
			s, err := toy.Start(t.Context())
			if err != nil {
				return err
			}
			defer s.Stop()
			h, features := bench(s, b)
			if c.Skip(h, features) == "" && (!costly(c) || b.Costly || b.Breaks == nil) {
				f.add(c.Judge(t.Context(), h, features))
			}
			return nil
		})
	}
	if err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	return f.found
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
			Patience:         patience(b),
		}
}

// patience is short where something has to be missed, so that it is missed soon,
// and long where nothing must be, however busy the machine.
func patience(b broken.Breakage) time.Duration {
	if b.Breaks == nil {
		return 20 * time.Second
	}
	return 3 * time.Second
}
