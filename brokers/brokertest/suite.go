package brokertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"outboxplayground/core/bus"
)

// Harness is how the suite gets at a bus.
type Harness struct {
	// Name is the driver's name.
	Name string
	// Mode is what stands behind it: real, embedded, fake or memory. It is logged,
	// so that nobody takes a result on a double for one on the real server.
	Mode string
	// Open connects to the broker. The suite fills in Prefix, sometimes Dial and
	// MaxUnacked; the harness adds the URL and the driver's options. Two buses
	// opened with one prefix must see each other's messages, unless the features
	// say Forgets.
	Open func(ctx context.Context, c bus.Config) (bus.Bus, error)
	// Crash kills the server without warning (SIGKILL) and returns when it is
	// dead; Restart starts it again, with the same address and data, and returns
	// when it answers. Set both only for a server that nobody else uses. Default:
	// nil, and the checks that need a crash are skipped.
	Crash, Restart func(ctx context.Context) error
}

// Order says within what a bus keeps the order of publishing.
type Order string

// The scopes of order.
const (
	Unordered Order = ""
	PerKey    Order = "key"   // messages of one Key
	PerTopic  Order = "topic" // all messages of one publisher
)

// Features are the facts that a driver declares about its bus. The suite skips
// or tightens accordingly. The zero value claims as little as possible.
type Features struct {
	// Ordered is the scope in which messages of one publisher arrive in order, as
	// long as no handler fails. Default: not judged.
	Ordered Order
	// Durable: accepted messages survive a crash of the server, those on a topic
	// that Prepare has only just returned for included. Judged only where the
	// harness has Crash. Default: a crash may lose everything.
	Durable bool
	// Replays: the topic keeps messages for groups that do not exist yet. Default:
	// only groups that were prepared before the publish get them.
	Replays bool
	// Dedupes: the broker drops a second publish of an ID that it has seen in the
	// last seconds. Default: not judged.
	Dedupes bool
	// Partitioned: members of a group share by partition, so that a busy member's
	// partition waits for it and nobody else sees what it holds. Default: any free
	// member takes the next message.
	Partitioned bool
	// Networked: the bus uses Config.Dial for every connection. Default: the
	// checks with broken connections are skipped.
	Networked bool
	// Forgets: each Open is a broker of its own that ends with Close. Default: the
	// broker outlives the bus.
	Forgets bool
	// RedeliveryWithin is the longest time until a message comes again after its
	// consumer failed or died. Default: 1 s.
	RedeliveryWithin time.Duration
	// Oversized is the size in bytes of a payload that the broker never takes.
	// Default: the check is skipped.
	Oversized int
	// Patience is how long the suite waits for what must come, beside
	// RedeliveryWithin. Default: 15 s.
	Patience time.Duration
}

func (f Features) withDefaults() Features {
	if f.RedeliveryWithin <= 0 {
		f.RedeliveryWithin = time.Second
	}
	if f.Patience <= 0 {
		f.Patience = 15 * time.Second
	}
	return f
}

// checkTimeout ends a check in which everything hangs.
const checkTimeout = 90 * time.Second

// Check is one way to try a bus.
type Check struct {
	// Name is stable; it is the name of the subtest.
	Name string
	// skip returns why the check says nothing about this bus, or "".
	skip func(h Harness, f Features) string
	// run does things to a bus and reports to the trial.
	run func(ctx context.Context, tr *trial)
}

// Run judges a bus: one subtest for each check, or only for the named ones.
func Run(t *testing.T, h Harness, f Features, only ...string) {
	t.Helper()
	t.Logf("conformance of %s: mode %s", h.Name, h.Mode)
	for _, c := range Checks() {
		if len(only) > 0 && !slices.Contains(only, c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if reason := c.Skip(h, f); reason != "" {
				t.Skip(reason)
			}
			for _, v := range c.Judge(t.Context(), h, f) {
				t.Errorf("%s", v)
			}
		})
	}
}

// Skip says why the check does not apply to a bus, or "".
func (c Check) Skip(h Harness, f Features) string {
	if c.skip == nil {
		return ""
	}
	return c.skip(h, f)
}

// Judge runs the check and returns what it found, without a test that could
// fail: so a test can feed it a broken bus and look at its verdict.
func (c Check) Judge(ctx context.Context, h Harness, f Features) []Violation {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	tr := newTrial(c.Name, h, f.withDefaults())
	tr.guard(func() { c.run(ctx, tr) })
	tr.end(context.WithoutCancel(ctx))
	return tr.found()
}

// Checks returns the whole suite, in the order in which it runs.
func Checks() []Check {
	return slices.Concat(basicChecks(), groupChecks(), redeliveryChecks(), refusalChecks(),
		closeChecks(), outageChecks(), crashChecks())
}

// networked and crashable are reasons to skip.
func networked(_ Harness, f Features) string {
	return unless(f.Networked, "not networked: there is no connection to break")
}

func crashable(h Harness, _ Features) string {
	return unless(h.Crash != nil && h.Restart != nil, "no server of its own to kill")
}

func unless(ok bool, reason string) string {
	if ok {
		return ""
	}
	return fmt.Sprintf("skipped: %s", reason)
}
