package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"outboxplayground/brokers"
	"outboxplayground/core/fault"
)

// TestSoak lets orders for all five buses come steadily, chapter 6's way, while something
// breaks every few seconds: 0 lost, 0 effects twice, 0 stuck but the declared poison,
// judged from the tables when all has come to rest.
//
// It belongs to ./infra/test full, ten minutes long. OUTBOX_PLAYGROUND_SOAK=30s runs it
// anywhere for so long; OUTBOX_PLAYGROUND_SEED repeats a schedule of faults.
func TestSoak(t *testing.T) {
	length := soakLength(t)
	seed := soakSeed(t)
	t.Logf("seed %d: OUTBOX_PLAYGROUND_SEED=%d repeats these faults", seed, seed)
	lanes := map[string]*soakLane{}
	db := soakDatabase(t)
	for _, name := range brokers.Names() {
		lanes[name] = newSoakLane(t, db, name)
	}
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var work sync.WaitGroup
	for _, l := range lanes {
		work.Go(func() { l.order(ctx) })
	}
	work.Go(func() { reportProgress(ctx, t, lanes) })
	start := time.Now()
	for _, b := range soakSchedule(seed, length) {
		if !sleepUntil(ctx, start.Add(b.at)) {
			break
		}
		t.Logf("%6.1fs %s", time.Since(start).Seconds(), b)
		work.Go(func() { lanes[b.bus].suffer(ctx, b) })
	}
	<-ctx.Done()
	work.Wait()
	for _, name := range brokers.Names() {
		lanes[name].judge()
	}
}

// soakRate is a lane's orders in a second.
const soakRate = 20

func soakLength(t *testing.T) time.Duration {
	text := os.Getenv("OUTBOX_PLAYGROUND_SOAK")
	switch {
	case text == "" && full():
		return 10 * time.Minute
	case text == "":
		t.Skip("the soak is part of ./infra/test full; OUTBOX_PLAYGROUND_SOAK=30s runs it here")
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		t.Fatalf("OUTBOX_PLAYGROUND_SOAK=%q: want a time of a second or more (%v)", text, err)
	}
	return d
}

func soakSeed(t *testing.T) uint64 {
	text := os.Getenv("OUTBOX_PLAYGROUND_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) % 1_000_000
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// breakage is one fault of the schedule.
type breakage struct {
	at, lasts time.Duration
	bus, what string
}

func (b breakage) String() string { return fmt.Sprintf("%-9s %s, %v", b.bus, b.what, b.lasts) }

// networkFaults are what the proxy can do to a lane, each for the time of its breakage.
func networkFaults() map[string]fault.Rule {
	return map[string]fault.Rule{
		"outage of the bus":                {Role: "bus", Kind: fault.Outage},
		"bus stalled":                      {Role: "bus", Kind: fault.Stall},
		"slow bus":                         {Role: "bus", Kind: fault.Delay, Delay: 150 * time.Millisecond},
		"the bus's answers swallowed":      {Role: "bus/relay", Kind: fault.SwallowReplies, CutAfter: 500 * time.Millisecond},
		"database cut":                     {Role: "db", Kind: fault.Cut},
		"outage of the database":           {Role: "db", Kind: fault.Outage},
		"the database's answers swallowed": {Role: "db", Kind: fault.SwallowReplies, CutAfter: 500 * time.Millisecond},
	}
}

// What a schedule draws from. In memory the broker is the process, so nothing may be
// killed there, and no connection leads to it.
func soakKinds(busName string) []string {
	kinds := []string{"database cut", "outage of the database", "the database's answers swallowed"}
	if busName == inMemory {
		return kinds
	}
	return append(kinds, "outage of the bus", "bus stalled", "slow bus", "the bus's answers swallowed",
		"relay killed", "consumer killed", "relay killed", "consumer killed", "producer killed", "relay stopped", "consumer stopped")
}

// soakSchedule is what breaks when: a function of the seed and the length alone. The
// last faults end before the soak does.
func soakSchedule(seed uint64, length time.Duration) (all []breakage) {
	draw := rand.New(rand.NewPCG(seed, 1))
	names := brokers.Names()
	for at := time.Second; at < length-time.Second; at += time.Duration(1000+draw.IntN(3000)) * time.Millisecond {
		name := names[draw.IntN(len(names))]
		kinds := soakKinds(name)
		all = append(all, breakage{at: at, bus: name, what: kinds[draw.IntN(len(kinds))],
			lasts: time.Duration(500+draw.IntN(4000)) * time.Millisecond})
	}
	return all
}

func sleepUntil(ctx context.Context, when time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(when)):
		return true
	}
}

// reportProgress says every ten seconds how far the lanes are.
func reportProgress(ctx context.Context, t *testing.T, lanes map[string]*soakLane) {
	start := time.Now()
	for tick := start; sleepUntil(ctx, tick.Add(10*time.Second)); tick = time.Now() {
		text := ""
		for _, name := range brokers.Names() {
			text += fmt.Sprintf("  %s %s", name, lanes[name].state(ctx))
		}
		t.Logf("%6.1fs%s", time.Since(start).Seconds(), text)
	}
}

// The seed repeats the schedule, and in memory nothing is killed.
func TestSoakScheduleIsRepeatable(t *testing.T) {
	one, two := soakSchedule(7, 10*time.Minute), soakSchedule(7, 10*time.Minute)
	seen := map[string]bool{}
	for i, b := range one {
		if b != two[i] {
			t.Fatalf("fault %d is %v and %v under the same seed", i, b, two[i])
		}
		seen[b.what] = true
		if b.bus == inMemory && !slices.Contains(soakKinds(inMemory), b.what) {
			t.Errorf("%s in memory", b.what)
		}
	}
	for _, what := range soakKinds(brokers.Names()[0]) {
		if !seen[what] {
			t.Errorf("in ten minutes there is no: %s", what)
		}
	}
	if len(one) < 200 {
		t.Errorf("%d faults in ten minutes, want one every three seconds or so", len(one))
	}
}
