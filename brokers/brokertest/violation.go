package brokertest

import (
	"fmt"
	"strings"
)

// Rule is the name of something that a bus must keep.
type Rule string

// The rules. Each comment is the sentence that a failure quotes in short.
const (
	// Lost: what was accepted reaches every group.
	Lost Rule = "lost"
	// Ghost: what was reported unavailable never arrives.
	Ghost Rule = "ghost"
	// Undead: what was reported rejected never arrives.
	Undead Rule = "undead"
	// Duplicated: nothing arrives twice without a cause.
	Duplicated Rule = "duplicated"
	// Reordered: messages arrive in the declared order.
	Reordered Rule = "reordered"
	// Mangled: payload, key and topic arrive as they were published.
	Mangled Rule = "mangled"
	// Headers: headers arrive as they were published, and no others than outbox-*.
	Headers Rule = "headers"
	// Stranger: nothing arrives that was never published.
	Stranger Rule = "stranger"
	// NotRedelivered: a message whose handler failed or whose consumer died comes
	// again, within the declared time.
	NotRedelivered Rule = "not-redelivered"
	// HoldsTooMany: a subscription holds at most MaxUnacked messages.
	HoldsTooMany Rule = "holds-too-many"
	// NotShared: members of a group share its messages.
	NotShared Rule = "not-shared"
	// WrongClass: an outcome is what the bus can know: accepted, unavailable,
	// rejected, or ambiguous.
	WrongClass Rule = "wrong-class"
	// Late: an answer comes in time.
	Late Rule = "late"
	// Hangs: a call returns.
	Hangs Rule = "hangs"
	// NotHealed: a bus works again by itself when its broker is back.
	NotHealed Rule = "not-healed"
	// WrongBacklog: Backlog counts what a group has not acknowledged.
	WrongBacklog Rule = "wrong-backlog"
	// Failed: a call that must succeed does.
	Failed Rule = "failed"
	// Panicked: the bus does not panic.
	Panicked Rule = "panicked"
)

// Violation is one broken rule with its smallest counterexample.
type Violation struct {
	Rule   Rule
	Check  string   // the check that found it
	Detail string   // what was expected and what was seen
	IDs    []string // the messages concerned, the first few
}

// String is what a failing test prints.
func (v Violation) String() string {
	s := fmt.Sprintf("rule %q violated in %s: %s", v.Rule, v.Check, v.Detail)
	if len(v.IDs) > 0 {
		s += " [" + strings.Join(v.IDs, ", ") + "]"
	}
	return s
}

// fewest keeps a counterexample small, and a check from repeating itself.
const fewest = 3

func firstFew(ids []string) []string { return ids[:min(len(ids), fewest)] }
