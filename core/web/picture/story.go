package picture

import (
	"slices"
	"time"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
)

// Sign is the form of a step's mark.
type Sign string

// The signs.
const (
	Done  Sign = "done"  // it has happened
	Open  Sign = "open"  // it has begun: a transaction not committed, a hold
	Fail  Sign = "fail"  // it went wrong
	Death Sign = "death" // a process was killed
	Email Sign = "email" // the effect
)

// Step is one thing that happened to an event.
type Step struct {
	N     int // counted from 1
	At    time.Time
	After time.Duration // since the first step
	// Gap is the silence before it, where that is long enough to be named.
	Gap time.Duration
	// From and To are lanes, by key; equal where nothing travels.
	From, To string
	Also     []string // further lanes that it marks
	Sign     Sign
	Word     string // in the picture
	Tell     string // in the list
	// Raw is what a program said, word for word; "" where nothing was said.
	Raw string
}

// gapFrom is how long a silence must be to be named.
const gapFrom = 100 * time.Millisecond

// The keys of the lanes, apart from those of a child's labels that are not known here.
const (
	laneClient   = "client"
	laneService  = "service"
	laneOrders   = "orders"
	laneOutbox   = "outbox"
	laneRelay    = "relay"
	laneBroker   = "broker"
	laneConsumer = "consumer"
)

// The lines of a journal that are no checkpoints.
const (
	stepOrder  = "order"
	stepAnswer = "answer"
	stepKilled = "killed"
	stepFailed = "publish-failed"
)

// soon is how close two lines of one role must be to be told as one step.
const soon = 50 * time.Millisecond

// teller turns the lines of a journal into steps: what belongs together becomes one.
type teller struct {
	say    Say
	outbox bool
	lines  []lab.Line
	told   []bool
	failed map[string]bool // by role: its last publish has failed
	steps  []Step
}

// tell reads the timeline of an event. outbox says whether its chapter has one.
func tell(say Say, e lab.EventTrail, outbox bool) []Step {
	lines := slices.Clone(e.Timeline)
	slices.SortStableFunc(lines, func(a, b lab.Line) int { return a.At.Compare(b.At) })
	t := &teller{say: say, outbox: outbox, lines: lines, told: make([]bool, len(lines)), failed: map[string]bool{}}
	for i := range lines {
		if !t.told[i] {
			t.line(i)
		}
	}
	for i := range t.steps {
		s := &t.steps[i]
		s.N, s.After = i+1, s.At.Sub(t.steps[0].At)
		if i > 0 {
			if gap := s.At.Sub(t.steps[i-1].At); gap >= gapFrom {
				s.Gap = gap
			}
		}
	}
	return t.steps
}

func (t *teller) add(l lab.Line, from, to string, sign Sign, key string, args ...any) {
	t.steps = append(t.steps, Step{At: l.At, From: from, To: to, Sign: sign,
		Word: t.say("picture.word." + key), Tell: t.say("picture.tell."+key, args...)})
}

// follows tells whether the next line of the same role is the given step and comes
// soon enough; then it is told together with line i.
func (t *teller) follows(i int, step checkpoint.Name, within time.Duration) bool {
	for j := i + 1; j < len(t.lines); j++ {
		if t.lines[j].Label != t.lines[i].Label {
			continue
		}
		if t.lines[j].Step != string(step) || t.lines[j].At.Sub(t.lines[i].At) > within {
			return false
		}
		t.told[j] = true
		return true
	}
	return false
}

// lane is the lane of a role's label.
func lane(label string) string {
	if label == lab.Producing {
		return laneService
	}
	return label
}

func (t *teller) line(i int) {
	l := t.lines[i]
	at := lane(l.Label)
	switch checkpoint.Name(l.Step) {
	case stepOrder:
		t.add(l, laneClient, laneService, Done, "order")
	case stepAnswer:
		t.answer(l)
	case stepKilled:
		t.add(l, at, at, Death, "killed", t.laneName(at))
	case checkpoint.BeforeCommit, checkpoint.AfterCommit:
		t.commit(i)
	case checkpoint.Claimed:
		t.add(l, laneOutbox, at, Done, "claimed", t.laneName(at))
	case checkpoint.BeforePublish, checkpoint.AfterPublish, stepFailed:
		t.publish(i)
	case checkpoint.BeforeMark, checkpoint.AfterMark:
		t.mark(i)
	case checkpoint.BeforeEffect, checkpoint.AfterEffect, checkpoint.BeforeAck:
		t.effect(i)
	default:
		t.add(l, at, at, Open, "other", t.laneName(at), l.Step)
		t.steps[len(t.steps)-1].Word = l.Step
	}
}
