package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"outboxplayground/core/audit"
	"outboxplayground/core/fault"
)

// RaceSide is what became of one side's orders, counted in its tables.
type RaceSide struct {
	Chapter    int    `json:"chapter"`
	Run        string `json:"run"` // where its report is
	Orders     int    `json:"orders"`
	Delivered  int    `json:"delivered"`
	Lost       int    `json:"lost"`
	Duplicated int    `json:"duplicated"`
	Stuck      int    `json:"stuck"`
	Pending    int    `json:"pending"`
}

// RaceOutage is the one outage that both sides went through.
type RaceOutage struct {
	FromOrder int     `json:"from_order"` // the first order placed while the broker was away; 0: none
	ToOrder   int     `json:"to_order"`   // the last one that both sides placed before its end
	Ms        float64 `json:"ms"`
	Hits      int64   `json:"hits"` // connections cut and dials refused
}

// RaceResult is the naive way beside the outbox under the same outage.
type RaceResult struct {
	Count  int        `json:"count"`
	Bus    string     `json:"bus"`
	Naive  RaceSide   `json:"naive"`
	Outbox RaceSide   `json:"outbox"`
	Outage RaceOutage `json:"outage"`
	// Conclusive is false when the outage did not happen, something is still pending,
	// or a side's own verdict is unknown: then the numbers prove nothing.
	Conclusive bool      `json:"conclusive"`
	Note       string    `json:"note"`
	AsOf       time.Time `json:"as_of"`
}

// MaxRace bounds the orders of one side of a race that somebody waits for.
const MaxRace = 1000

// raceOutage is the longest outage: enough to place the last of MaxRace orders one
// after the other on a busy machine. An outbox that gives up after five polls would
// not last it; chapter 4's does.
const raceOutage = 30 * time.Second

// RaceSpec says what races: two chapters by number, how many orders each gets, and
// the bus.
type RaceSpec struct {
	Naive, Outbox int
	Count         int
	Bus           string
}

// Race runs two chapters side by side, each in processes of its own, through one
// proxy and one outage: from the 13th order on, until both have placed their last
// and the outbox's relay has met it, at most 30 s. The bus in memory cannot be cut
// off: there the result is not conclusive. tell, which may be nil, hears of either
// side's progress, one at a time; Text is naive or outbox. ErrSpec and the errors of
// a bus come before anything is started.
func (l *Lab) Race(ctx context.Context, race RaceSpec, tell func(Progress)) (RaceResult, []Result, error) {
	proxy, err := fault.Listen()
	if err != nil {
		return RaceResult{}, nil, err
	}
	defer proxy.Close()
	shared := newShared(proxy, 2)
	faultName := "broker-down"
	if race.Bus == "inmemory" {
		faultName, shared = "none", nil
	}
	results := make([]Result, 2)
	var telling sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for i, side := range []struct {
		name    string
		chapter int
	}{{"naive", race.Naive}, {"outbox", race.Outbox}} {
		g.Go(func() error {
			spec := Spec{Chapter: side.chapter, Bus: race.Bus, Fault: faultName, Orders: race.Count}.withDefaults()
			var err error
			results[i], err = l.runAs(ctx, newRunID(), spec, shared, func(p Progress) {
				if tell == nil {
					return
				}
				telling.Lock()
				defer telling.Unlock()
				p.Text = side.name
				tell(p)
			})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return RaceResult{}, nil, err
	}
	return raceResult(race, shared, results), results, nil
}

func raceResult(race RaceSpec, shared *sharedOutage, results []Result) RaceResult {
	res := RaceResult{Count: race.Count, Bus: race.Bus, AsOf: time.Now().UTC(),
		Naive: raceSide(results[0].Report), Outbox: raceSide(results[1].Report), Outage: shared.report()}
	unknown := slices.IndexFunc(results, func(r Result) bool { return r.Report.Valid == audit.Unknown })
	res.Conclusive = res.Outage.Hits > 0 && res.Naive.Pending+res.Outbox.Pending == 0 && unknown < 0
	switch {
	case race.Bus == "inmemory":
		res.Note = "the bus in memory has no connection that could be cut, so there was no outage: this proves nothing; choose a bus with a network"
	case res.Outage.Hits == 0:
		res.Note = fmt.Sprintf("the outage begins at order %d and met nothing: this proves nothing; ask for more orders", firstTarget)
	case res.Naive.Pending+res.Outbox.Pending == 0 && unknown >= 0:
		res.Note = "this is not the last word: chapter " + strconv.Itoa(results[unknown].Report.Chapter) + ": " + results[unknown].Report.Why
	case !res.Conclusive:
		res.Note = "some events are still pending: this is not the last word"
	default:
		res.Note = fmt.Sprintf("the broker was cut off from order %d to %d; every number is counted in the tables", res.Outage.FromOrder, res.Outage.ToOrder)
	}
	return res
}

func raceSide(r Report) RaceSide {
	v := r.Measured
	return RaceSide{r.Chapter, r.ID, v.Orders, v.Delivered, v.Lost, v.Duplicated, v.Stuck, v.Pending}
}

// WriteText writes the result as an aligned table.
func (r RaceResult) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d orders on %s\torders\t✓ delivered\t✗ lost\t⧉ duplicated\t■ stuck\t… pending\n", r.Count, r.Bus)
	for _, side := range []struct {
		name string
		RaceSide
	}{{"naive", r.Naive}, {"outbox", r.Outbox}} {
		fmt.Fprintf(w, "%s (chapter %d)\t%d\t%d\t%d\t%d\t%d\t%d\n", side.name, side.Chapter,
			side.Orders, side.Delivered, side.Lost, side.Duplicated, side.Stuck, side.Pending)
	}
	fmt.Fprintf(w, "\nconclusive\t%t\n%s\n", r.Conclusive, r.Note)
	return w.Flush()
}
