package bus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifetimeWaitsForWhatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLifetime()
		leave, ok := l.Enter()
		if !ok {
			t.Fatal("a living bus takes no work")
		}
		worked, waited := make(chan bool), make(chan bool)
		l.Go(func() { worked <- true })
		l.End()
		l.End()
		if _, ok := l.Enter(); ok || !l.Over() || l.Go(func() { t.Error("begun after the end") }) {
			t.Error("work began after the end")
		}
		go func() { l.Wait(); close(waited) }()
		leave()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Wait did not wait for the goroutine")
		case <-worked:
		}
		<-waited
	})
}

func TestLifetimeEndsWhatIsBoundToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLifetime()
		outer, cancel := context.WithCancel(t.Context())
		byCaller, _ := l.Bound(outer)
		byLife, _ := l.Bound(t.Context())
		released, release := l.Bound(t.Context())
		release()
		cancel()
		if byCaller.Err() == nil || released.Err() == nil || byLife.Err() != nil {
			t.Error("a bound context does not follow its caller alone")
		}
		if len(l.bound) != 2 {
			t.Errorf("%d contexts kept, want the two not released", len(l.bound))
		}
		start := time.Now()
		if !l.Pause(t.Context(), time.Second) || l.Pause(outer, time.Second) || time.Since(start) != time.Second {
			t.Error("a pause lasts its time, or until its context ends")
		}
		time.AfterFunc(time.Second, l.End)
		if l.Pause(t.Context(), time.Hour) || byLife.Err() == nil {
			t.Error("the end of the bus ends neither pause nor context")
		}
		late, _ := l.Bound(t.Context())
		if late.Err() == nil {
			t.Error("a context bound after the end lives")
		}
	})
}
