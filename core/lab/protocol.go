package lab

import (
	"time"

	"outboxplayground/core/checkpoint"
)

// The roles of a chapter, as the lab's children have them.
const (
	Producing = "producer"
	Relaying  = "relay"
	Consuming = "consumer"
)

// ChildSpec is the first line that a child reads from its standard input.
type ChildSpec struct {
	Chapter     int
	Variant     string
	Bus         string
	BusURL      string
	Schema      string
	DatabaseURL string
	// Proxy is the fault proxy that every connection goes through.
	Proxy string
	// Poison is the event whose destination shall not exist; "" is none.
	Poison string
	// Roles run in this process; all of them in memory, where the broker is it.
	Roles []RoleSpec
}

// RoleSpec is one role of a child. A second relay has a label of its own.
type RoleSpec struct {
	Role, Label string
	Wait        bool // runs only when told to start
}

// order is a line that a child is told later. Exactly one field is set.
type order struct {
	Arm     *PlanSpec `json:",omitempty"`
	Release string    `json:",omitempty"` // the name of a hold
	Start   string    `json:",omitempty"` // the label of a waiting role
	Stop    string    `json:",omitempty"` // the label of a role
	Echo    string    `json:",omitempty"` // to be said back
	// Reconnect is the label of a role whose bus shall be reached before the answer.
	Reconnect string `json:",omitempty"`
	// Backlog is the label of a role whose bus shall be asked what it still holds.
	Backlog string `json:",omitempty"`
}

// PlanSpec arms a plan in a role: fail, crash, or hold until released.
type PlanSpec struct {
	Label   string
	At      checkpoint.Name
	EventID string
	Do      string
}

// The deeds of a PlanSpec.
const (
	doFail  = "fail"
	doCrash = "crash"
	doHold  = "hold"
)

func (p PlanSpec) name() string { return p.Label + "@" + string(p.At) + "@" + p.EventID }

// Line is what a child says on its standard output, one JSON object each. It is
// written before the plan of the step fires, so that a killed child's last step
// is known.
type Line struct {
	At    time.Time `json:"at"`
	Label string    `json:"label"`
	// Step is the checkpoint that an event reached; ready, armed, stopped or note
	// for the other lines.
	Step    string `json:"step"`
	EventID string `json:"event_id,omitempty"`
	Text    string `json:"text,omitempty"`
}

// The lines that are not checkpoints.
const (
	sayReady     = "ready"   // Text: where the producer listens
	sayArmed     = "armed"   // Text: the name of the plan
	sayStopped   = "stopped" // the role has ended
	sayEcho      = "echo"    // Text: what was to be said back
	sayConnected = "connected"
	sayBacklog   = "backlog" // Text: a number, or why there is none
	sayFailed    = "publish-failed"
	sayAnswer    = "answer" // the client's own line. Text: what it was answered
	sayKilled    = "killed" // the lab's own line, when it has seen the process dead
)
