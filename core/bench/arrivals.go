package bench

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"outboxplayground/core/bus"
)

// arrivals notes when the first delivery of each event came, and counts all.
type arrivals struct {
	mu    sync.Mutex
	at    map[string]time.Time
	total int
}

func newArrivals() *arrivals { return &arrivals{at: map[string]time.Time{}} }

// take is the consumer's handler.
func (a *arrivals) take(_ context.Context, m bus.Message) error {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total++
	if _, known := a.at[m.ID]; !known {
		a.at[m.ID] = now
	}
	return nil
}

func (a *arrivals) count() (distinct, total int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at), a.total
}

// Nothing has come for so long: the end. Where all is there and the bus says that it
// holds no more, a little while is enough for what the consumer has in hand. Else it
// is longer than any driver's pause between two reads, and where something was lost
// it is how long it takes to believe it.
const (
	glance  = 10 * time.Millisecond
	briefly = 200 * time.Millisecond
	long    = 3 * time.Second
)

// until waits for n events and then for the end of repeats. more says how many
// messages the bus still holds; nil where it cannot be asked.
func (a *arrivals) until(ctx context.Context, n int, more func(context.Context) (int64, error)) error {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	last, since := -1, time.Now()
	for {
		distinct, total := a.count()
		if total != last {
			last, since = total, time.Now()
		}
		quiet := time.Since(since)
		if quiet > long {
			return nil
		}
		if distinct >= n && quiet > briefly && more != nil {
			if left, err := more(ctx); err == nil && left == 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// held asks the bus of a subscription what it still has for it.
func held(b bus.Bus, topic string) func(context.Context) (int64, error) {
	counts, ok := b.(bus.Backlogger)
	if !ok {
		return nil
	}
	return func(ctx context.Context) (int64, error) { return counts.Backlog(ctx, topic, group) }
}

// since returns the milliseconds from each moment to the arrival of its event, in
// order of size, without those that have not arrived.
func (a *arrivals) since(ids []string, sent []time.Time) (waits []float64, distinct, total int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, id := range ids {
		if at, ok := a.at[id]; ok {
			waits = append(waits, ms(at.Sub(sent[i])))
		}
	}
	slices.Sort(waits)
	return waits, len(a.at), a.total
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// quantile is the smallest value that a share q of the sorted values does not
// exceed; 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(0, at)]
}

// median is the quantile in the middle, of values in any order.
func median(values []float64) float64 {
	return quantile(slices.Sorted(slices.Values(values)), .5)
}
