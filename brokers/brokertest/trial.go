package brokertest

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"outboxplayground/core/bus"
)

// topic and groups that most checks use.
const (
	safe   = "safe"
	mailer = "mailer"
)

// How long calls may take that nothing disturbs.
const (
	publishWithin = 10 * time.Second
	openWithin    = 20 * time.Second
	stopWithin    = 3 * time.Second
)

// trial is one check on one bus: what it opened, and what it found.
type trial struct {
	check  string
	h      Harness
	f      Features
	prefix string
	ledger *ledger

	mu         sync.Mutex
	violations []Violation
	buses      []bus.Bus
	subs       []*sub
	topics     map[string][]string // prepared, with their groups
	cleanup    []func()
}

func newTrial(check string, h Harness, f Features) *trial {
	return &trial{check: check, h: h, f: f, prefix: "t" + uuid.NewString()[:8],
		ledger: newLedger(), topics: map[string][]string{}}
}

// violate reports a broken rule. Safe from any goroutine.
func (tr *trial) violate(r Rule, ids []string, format string, args ...any) {
	tr.add(Violation{Rule: r, Detail: fmt.Sprintf(format, args...), IDs: firstFew(ids)})
}

func (tr *trial) add(vs ...Violation) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, v := range vs {
		v.Check = tr.check
		if tr.count(v.Rule) < fewest {
			tr.violations = append(tr.violations, v)
		}
	}
}

// count is how often a rule was found broken. Call it locked.
func (tr *trial) count(r Rule) int {
	n := 0
	for _, v := range tr.violations {
		if v.Rule == r {
			n++
		}
	}
	return n
}

func (tr *trial) found() []Violation {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.violations
}

// givenUp is panicked by must, to leave a check that cannot go on.
type givenUp struct{}

// must leaves the check when something fails without which it makes no sense.
// Call it in the check's own goroutine only.
func (tr *trial) must(err error, what string) {
	if err != nil {
		tr.violate(Failed, nil, "%s: %v", what, err)
		panic(givenUp{})
	}
}

// guard runs f and reports a panic as a violation. Every goroutine that calls
// into a bus runs under it.
func (tr *trial) guard(f func()) {
	defer func() {
		switch p := recover(); p.(type) {
		case nil, givenUp:
		default:
			tr.violate(Panicked, nil, "%v\n%s", p, debug.Stack())
		}
	}()
	f()
}

// open connects; a bus that forgets is opened once and shared.
func (tr *trial) open(ctx context.Context, change ...func(*bus.Config)) bus.Bus {
	if tr.f.Forgets && len(tr.buses) > 0 {
		return tr.buses[0]
	}
	b, err := tr.connect(ctx, change...)
	tr.must(err, "Open")
	tr.buses = append(tr.buses, b)
	return b
}

func (tr *trial) connect(ctx context.Context, change ...func(*bus.Config)) (bus.Bus, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	c := bus.Config{Prefix: tr.prefix}
	for _, f := range change {
		f(&c)
	}
	return tr.h.Open(ctx, c)
}

// prepare makes a topic and its groups, where the bus wants that.
func (tr *trial) prepare(ctx context.Context, b bus.Bus, topic string, groups ...string) {
	top, ok := b.(bus.Topology)
	if !ok {
		return
	}
	tr.topics[topic] = append(tr.topics[topic], groups...)
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	tr.must(top.Prepare(ctx, topic, groups...), "Prepare "+topic)
}

// ready opens a bus with the usual topic and group on it.
func (tr *trial) ready(ctx context.Context, change ...func(*bus.Config)) bus.Bus {
	b := tr.open(ctx, change...)
	tr.prepare(ctx, b, safe, mailer)
	return b
}

// end stops what runs and removes what was made.
func (tr *trial) end(ctx context.Context) {
	for _, s := range tr.subs {
		tr.guard(func() { s.stop() })
	}
	tr.guard(func() { tr.remove(ctx) })
	for _, b := range tr.buses {
		tr.guard(func() { tr.close(b) })
	}
	for _, f := range tr.cleanup {
		f()
	}
}

// remove uses a connection of its own, because the check may have closed or
// broken all the others. What it leaves behind harms nobody, so it is no violation.
func (tr *trial) remove(ctx context.Context) {
	if tr.f.Forgets || len(tr.topics) == 0 {
		return
	}
	b, err := tr.connect(ctx)
	if err != nil {
		return
	}
	tr.buses = append(tr.buses, b)
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	for topic, groups := range tr.topics {
		_ = b.(bus.Topology).Remove(ctx, topic, groups...)
	}
}

// close calls Close and reports one that fails or does not return.
func (tr *trial) close(b bus.Bus) {
	done := make(chan error, 1)
	go tr.guard(func() { done <- b.Close() })
	select {
	case err := <-done:
		if err != nil {
			tr.violate(Failed, nil, "Close: %v", err)
		}
	case <-time.After(closeWithin):
		tr.violate(Hangs, nil, "Close did not return within %v", closeWithin)
	}
}

const closeWithin = 10 * time.Second
