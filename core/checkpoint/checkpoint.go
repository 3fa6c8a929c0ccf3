// Package checkpoint names the steps of the story, so that a fault can happen at
// exactly one of them. Production code calls Reach on a nil *Steps, which does
// nothing; a lab arms plans on a real one: fail here, stop here, die here.
package checkpoint

import (
	"context"
	"sync"
	"sync/atomic"
)

// Name is one step of the story.
type Name string

// The steps, in the order in which an event passes them: producer, relay, consumer.
const (
	BeforeCommit  Name = "before-commit"
	AfterCommit   Name = "after-commit"
	Claimed       Name = "claimed"
	BeforePublish Name = "before-publish"
	AfterPublish  Name = "after-publish"
	BeforeMark    Name = "before-mark"
	AfterMark     Name = "after-mark"
	BeforeEffect  Name = "before-effect"
	AfterEffect   Name = "after-effect"
	BeforeAck     Name = "before-ack"
)

// Plan is what shall happen when an event reaches a step. It fires once.
type Plan struct {
	// At is the step.
	At Name
	// EventID is the event; empty means whichever comes first.
	EventID string
	// Do happens there, in the goroutine of the code that reached the step. Its
	// error becomes the error of Reach, that is: a business failure at that step.
	Do func(ctx context.Context) error
}

// Steps holds the plans of one process and tells an observer what was reached.
// The zero value has no plans. Safe for concurrent use.
type Steps struct {
	// Observe, when set, is told every step before its plan fires. Set it before
	// the first Reach.
	Observe func(at Name, eventID string)

	armed atomic.Int32 // so that Reach takes no lock while nothing is planned
	mu    sync.Mutex
	plans []*Plan
}

// Arm adds a plan. The returned function takes it back if it has not fired.
func (s *Steps) Arm(p Plan) (disarm func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan := &p
	s.plans = append(s.plans, plan)
	s.armed.Store(int32(len(s.plans)))
	return func() { s.take(func(q *Plan) bool { return q == plan }) }
}

// Reach says that an event has come to a step and carries out the plan for it,
// if there is one. On a nil receiver it does nothing. A non-nil error means that
// the story fails here: callers treat it as their own failure.
func (s *Steps) Reach(ctx context.Context, at Name, eventID string) error {
	if s == nil {
		return nil
	}
	if s.Observe != nil {
		s.Observe(at, eventID)
	}
	if s.armed.Load() == 0 {
		return nil
	}
	plan := s.take(func(p *Plan) bool {
		return p.At == at && (p.EventID == "" || p.EventID == eventID)
	})
	if plan == nil {
		return nil
	}
	return plan.Do(ctx)
}

// take removes and returns the first plan that matches, so that it fires once.
func (s *Steps) take(match func(*Plan) bool) *Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.plans {
		if match(p) {
			s.plans = append(s.plans[:i], s.plans[i+1:]...)
			s.armed.Store(int32(len(s.plans)))
			return p
		}
	}
	return nil
}

// Fail returns steps on which the named event fails with err at the given step.
func Fail(at Name, eventID string, err error) *Steps {
	s := &Steps{}
	s.Arm(Plan{At: at, EventID: eventID, Do: func(context.Context) error { return err }})
	return s
}
