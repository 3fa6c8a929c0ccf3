// Package fault breaks things for real: network connections through a proxy on
// a loopback port, and processes by signals.
//
// The proxy sits between clients and servers without either knowing. A client
// gets a dial function (Dialer); it connects to the proxy, names its role and the
// address it wants, and the proxy opens the real connection. Addresses are named
// one by one at dial time, so servers that hand out further addresses (Kafka) and
// unix sockets work as they are. Rules (Inject) then cut, refuse, stall, delay, or
// drop replies on the connections of one role or one target.
//
// Each rule counts what it did, ends by itself after a time limit, and cannot
// outlive the process. Bytes are matched as they travel: a connection that
// encrypts or compresses cannot be armed by its content.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what a rule does to the connections it matches.
type Kind string

// The kinds of fault.
const (
	// Cut resets the connections that are open now, and is over at once.
	Cut Kind = "cut"
	// Refuse answers new dials with "connection refused"; open ones live on.
	Refuse Kind = "refuse"
	// Outage is Cut and Refuse together: the server is down until the rule ends.
	Outage Kind = "outage"
	// Stall is a black hole: open connections stay open but no byte moves in either
	// direction, and new dials get no answer. What was held goes on when it ends.
	Stall Kind = "stall"
	// Delay lets every chunk of a reply arrive Rule.Delay later, in order. It adds
	// latency, not a limit on bandwidth: chunks wait side by side (at most 8 MiB of
	// them for one connection).
	Delay Kind = "delay"
	// SwallowReplies passes requests on and drops the bytes that come back. A stream
	// with a hole in it cannot go on, so a connection that lost bytes is reset when
	// the rule ends, or Rule.CutAfter the first lost byte. Only the client sees a
	// reset: the server may read all it was sent.
	SwallowReplies Kind = "swallow-replies"
)

// Limits of a rule.
const (
	// DefaultTTL is the life of a rule that names none.
	DefaultTTL = time.Minute
	// MaxTTL bounds the life of every rule; a longer one is shortened to it.
	MaxTTL = 10 * time.Minute

	maxArm = 4 << 10
)

// Rule says what to break, and for whom.
type Rule struct {
	// Name is shown in lists. Default: the kind.
	Name string
	// Role limits the rule to connections of this role and of roles below it:
	// "broker" matches "broker" and "broker/relay". Empty matches every role.
	Role string
	// Target limits the rule to this address, spelt as the client dials it. Empty
	// matches every address.
	Target string
	// Kind is required.
	Kind Kind
	// Delay is how much later replies come; for Delay only, and required there.
	Delay time.Duration
	// Arm, for SwallowReplies, leaves a connection alone until its client has sent
	// these bytes (at most 4 KiB); replies to requests before them may be lost too
	// when they are still on their way. Empty: at once.
	Arm []byte
	// CutAfter, for SwallowReplies, resets the connection this long after its first
	// lost byte. Zero leaves it open until the rule ends.
	CutAfter time.Duration
	// Once, for SwallowReplies, spends the rule on the first connection that it
	// strikes; the rule ends when that connection does.
	Once bool
	// TTL is when the rule ends by itself. Default DefaultTTL, at most MaxTTL.
	TTL time.Duration
}

// matches tells whether the rule speaks of connections of this role to this target.
func (r Rule) matches(role, target string) bool {
	if r.Target != "" && r.Target != target {
		return false
	}
	n := len(r.Role)
	return n == 0 || role == r.Role || (len(role) > n && role[:n] == r.Role && role[n] == '/')
}

func (r Rule) withDefaults() Rule {
	if r.Name == "" {
		r.Name = string(r.Kind)
	}
	if r.TTL == 0 {
		r.TTL = DefaultTTL
	}
	r.TTL = min(r.TTL, MaxTTL)
	return r
}

// check refuses rules that would silently do less than they say.
func (r Rule) check() error {
	switch r.Kind {
	case Cut, Refuse, Outage, Stall, Delay, SwallowReplies:
	default:
		return fmt.Errorf("fault: unknown kind %q", r.Kind)
	}
	swallowOnly := len(r.Arm) > 0 || r.CutAfter != 0 || r.Once
	switch {
	case r.TTL < 0 || r.CutAfter < 0:
		return errors.New("fault: negative duration")
	case (r.Kind == Delay) != (r.Delay > 0):
		return errors.New("fault: Delay must be positive for the kind delay, and zero for others")
	case swallowOnly && r.Kind != SwallowReplies:
		return errors.New("fault: Arm, CutAfter and Once belong to the kind swallow-replies")
	case len(r.Arm) > maxArm:
		return fmt.Errorf("fault: Arm is longer than %d bytes", maxArm)
	}
	return nil
}
