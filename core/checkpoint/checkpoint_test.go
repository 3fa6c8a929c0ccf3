package checkpoint_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"outboxplayground/core/checkpoint"
)

var errBroken = errors.New("broken on purpose")

// counting returns a plan's action that counts its calls and fails.
func counting(calls *atomic.Int64) func(context.Context) error {
	return func(context.Context) error { calls.Add(1); return errBroken }
}

func TestNilStepsDoNothing(t *testing.T) {
	var s *checkpoint.Steps
	if err := s.Reach(t.Context(), checkpoint.BeforeCommit, "e1"); err != nil {
		t.Error(err)
	}
}

func TestZeroStepsHaveNoPlans(t *testing.T) {
	s := &checkpoint.Steps{}
	if err := s.Reach(t.Context(), checkpoint.BeforeCommit, "e1"); err != nil {
		t.Error(err)
	}
}

func TestAPlanFiresOnceAtItsStepForItsEvent(t *testing.T) {
	var calls atomic.Int64
	s := &checkpoint.Steps{}
	s.Arm(checkpoint.Plan{At: checkpoint.AfterPublish, EventID: "e2", Do: counting(&calls)})
	for _, c := range []struct {
		at   checkpoint.Name
		id   string
		want error
	}{
		{checkpoint.AfterPublish, "e1", nil},
		{checkpoint.BeforePublish, "e2", nil},
		{checkpoint.AfterPublish, "e2", errBroken},
		{checkpoint.AfterPublish, "e2", nil},
	} {
		if err := s.Reach(t.Context(), c.at, c.id); err != c.want {
			t.Errorf("%s at %s: %v; want %v", c.id, c.at, err, c.want)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("fired %d times", calls.Load())
	}
}

func TestAPlanWithoutEventTakesWhoeverComesFirst(t *testing.T) {
	var calls atomic.Int64
	s := &checkpoint.Steps{}
	s.Arm(checkpoint.Plan{At: checkpoint.Claimed, Do: counting(&calls)})
	if err := s.Reach(t.Context(), checkpoint.Claimed, "any"); err != errBroken {
		t.Errorf("first: %v", err)
	}
	if err := s.Reach(t.Context(), checkpoint.Claimed, "other"); err != nil {
		t.Errorf("second: %v", err)
	}
}

func TestPlansOfOneStepFireInTheOrderOfArming(t *testing.T) {
	s := &checkpoint.Steps{}
	second := errors.New("second")
	s.Arm(checkpoint.Plan{At: checkpoint.BeforeAck, Do: func(context.Context) error { return errBroken }})
	s.Arm(checkpoint.Plan{At: checkpoint.BeforeAck, Do: func(context.Context) error { return second }})
	for i, want := range []error{errBroken, second, nil} {
		if err := s.Reach(t.Context(), checkpoint.BeforeAck, "e"); err != want {
			t.Errorf("call %d: %v; want %v", i, err, want)
		}
	}
}

func TestDisarm(t *testing.T) {
	var calls atomic.Int64
	s := &checkpoint.Steps{}
	disarm := s.Arm(checkpoint.Plan{At: checkpoint.BeforeMark, Do: counting(&calls)})
	kept := s.Arm(checkpoint.Plan{At: checkpoint.AfterMark, Do: counting(&calls)})
	disarm()
	disarm() // harmless
	if err := s.Reach(t.Context(), checkpoint.BeforeMark, "e"); err != nil {
		t.Errorf("disarmed: %v", err)
	}
	if err := s.Reach(t.Context(), checkpoint.AfterMark, "e"); err != errBroken {
		t.Errorf("the other plan: %v", err)
	}
	kept() // it has fired: harmless too
}

// However many reach a step at once, one of them meets the plan.
func TestAPlanFiresOnceAmongMany(t *testing.T) {
	for range 100 {
		var calls, failed atomic.Int64
		s := &checkpoint.Steps{}
		s.Arm(checkpoint.Plan{At: checkpoint.BeforeEffect, Do: counting(&calls)})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if s.Reach(t.Context(), checkpoint.BeforeEffect, "e") != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		if calls.Load() != 1 || failed.Load() != 1 {
			t.Fatalf("fired %d times, %d failed", calls.Load(), failed.Load())
		}
	}
}

// A plan may hold its event: other events pass meanwhile, the step's lock is free.
func TestAHeldEventHoldsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &checkpoint.Steps{}
		let := make(chan struct{})
		s.Arm(checkpoint.Plan{At: checkpoint.BeforeMark, EventID: "e1", Do: func(ctx context.Context) error {
			select {
			case <-let:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		held := make(chan error, 1)
		go func() { held <- s.Reach(t.Context(), checkpoint.BeforeMark, "e1") }()
		synctest.Wait()
		if err := s.Reach(t.Context(), checkpoint.BeforeMark, "e2"); err != nil {
			t.Error(err)
		}
		s.Arm(checkpoint.Plan{At: checkpoint.AfterMark})() // arming and disarming do not wait
		select {
		case err := <-held:
			t.Fatalf("not held: %v", err)
		default:
		}
		close(let)
		if err := <-held; err != nil {
			t.Error(err)
		}
	})
}

func TestTheContextReachesThePlan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &checkpoint.Steps{}
	s.Arm(checkpoint.Plan{At: checkpoint.BeforeMark, Do: func(ctx context.Context) error { return ctx.Err() }})
	if err := s.Reach(ctx, checkpoint.BeforeMark, "e"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestObserveSeesEveryStepBeforeItsPlan(t *testing.T) {
	var seen []string
	s := &checkpoint.Steps{Observe: func(at checkpoint.Name, id string) { seen = append(seen, string(at)+" "+id) }}
	s.Arm(checkpoint.Plan{At: checkpoint.AfterCommit, Do: func(context.Context) error {
		seen = append(seen, "plan")
		return nil
	}})
	s.Reach(t.Context(), checkpoint.BeforeCommit, "e1")
	s.Reach(t.Context(), checkpoint.AfterCommit, "e2")
	want := []string{"before-commit e1", "after-commit e2", "plan"}
	for i := range want {
		if len(seen) != len(want) || seen[i] != want[i] {
			t.Fatalf("saw %q; want %q", seen, want)
		}
	}
}

func TestFail(t *testing.T) {
	s := checkpoint.Fail(checkpoint.BeforeCommit, "e1", errBroken)
	if err := s.Reach(t.Context(), checkpoint.BeforeCommit, "e2"); err != nil {
		t.Errorf("another event: %v", err)
	}
	if err := s.Reach(t.Context(), checkpoint.BeforeCommit, "e1"); !errors.Is(err, errBroken) {
		t.Errorf("its event: %v", err)
	}
}

// The price of a step where nothing is planned: go test -bench . ./core/checkpoint
func BenchmarkReachNil(b *testing.B) { reachOften(b, nil) }

func BenchmarkReachUnarmed(b *testing.B) { reachOften(b, &checkpoint.Steps{}) }

func reachOften(b *testing.B, s *checkpoint.Steps) {
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		s.Reach(ctx, checkpoint.BeforePublish, "e")
	}
}

// Production code passes every step with nil steps. The best of several rounds
// counts, so that a busy machine does not matter.
func TestReachOnNilIsBelowTenNanoseconds(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector slows everything down: run without -race")
	}
	const calls, limit = 1 << 20, 10 * time.Nanosecond
	var s *checkpoint.Steps
	ctx, best := t.Context(), time.Hour
	for range 10 {
		start := time.Now()
		for range calls {
			s.Reach(ctx, checkpoint.BeforePublish, "e")
		}
		best = min(best, time.Since(start))
	}
	if best >= calls*limit {
		t.Errorf("%d calls of Reach on nil took %v; want less than %v each", calls, best, limit)
	}
	if n := testing.AllocsPerRun(100, func() { s.Reach(ctx, checkpoint.BeforePublish, "e") }); n != 0 {
		t.Errorf("Reach on nil allocates %v times", n)
	}
}
