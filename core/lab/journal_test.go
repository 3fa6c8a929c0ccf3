package lab

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func step(name string) func(Line) bool { return func(l Line) bool { return l.Step == name } }

func TestJournalFindsWhatWasSaidBefore(t *testing.T) {
	j := newJournal()
	for _, s := range []string{"a", "b", "a"} {
		j.add(Line{Step: s})
	}
	line, next, err := j.await(t.Context(), nil, 0, step("a"))
	if err != nil || line.Step != "a" || next != 1 {
		t.Errorf("%+v, %d, %v; want the first", line, next, err)
	}
	if _, next, err = j.await(t.Context(), nil, next, step("a")); err != nil || next != 3 {
		t.Errorf("after the first: %d, %v; want the third", next, err)
	}
}

func TestJournalWaitsForWhatComes(t *testing.T) {
	j := newJournal()
	var told sync.WaitGroup
	told.Go(func() {
		for range 100 {
			j.add(Line{Step: "noise"})
		}
		j.add(Line{Step: "it"})
	})
	defer told.Wait()
	if _, next, err := j.await(t.Context(), nil, 0, step("it")); err != nil || next != 101 {
		t.Errorf("%d, %v", next, err)
	}
}

func TestJournalGivesUpWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := newJournal()
	j.add(Line{Step: "noise"})
	if _, _, err := j.await(ctx, nil, 0, step("it")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A dead child is not waited for, but its last words count.
func TestJournalOfADeadChild(t *testing.T) {
	dead := make(chan struct{})
	close(dead)
	j := newJournal()
	if _, _, err := j.await(t.Context(), dead, 0, step("it")); err == nil || !strings.Contains(err.Error(), "ended before") {
		t.Errorf("nothing said: %v", err)
	}
	j.add(Line{Step: "it"})
	if _, _, err := j.await(t.Context(), dead, 0, step("it")); err != nil {
		t.Errorf("last words: %v", err)
	}
}

// The same when it speaks and dies between a look and the wait. Which of the two
// signals is seen first is left to chance, hence the repetitions.
func TestJournalOfAChildThatDies(t *testing.T) {
	for range 100 {
		j, dead := newJournal(), make(chan struct{})
		j.add(Line{Step: "noise"})
		_, _, err := j.await(t.Context(), dead, 0, func(l Line) bool {
			if l.Step == "noise" {
				j.add(Line{Step: "it"})
				close(dead)
			}
			return l.Step == "it"
		})
		if err != nil {
			t.Fatalf("its last words were not heard: %v", err)
		}
	}
}

func TestThrottleKeepsStagesAndTheEnd(t *testing.T) {
	var got []Progress
	tell := throttle(func(p Progress) { got = append(got, p) })
	begin := time.Now()
	tell(Progress{Stage: "preparing"})
	for i := 1; i <= 50; i++ {
		tell(Progress{Stage: "running", Done: i, Total: 50})
	}
	tell(Progress{Stage: "judging", Done: 50, Total: 50})
	most := 4 + int(time.Since(begin)/(100*time.Millisecond))
	if len(got) < 4 || len(got) > most || got[0].Stage != "preparing" || got[len(got)-1].Stage != "judging" || got[len(got)-2].Done != 50 {
		t.Errorf("%d events, at most %d: %+v", len(got), most, got)
	}
}
