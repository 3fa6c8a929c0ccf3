package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"outboxplayground/core/audit"
)

// Spec is one experiment: a chapter's variant on a bus, under one fault.
type Spec struct {
	Chapter int    `json:"chapter"`
	Variant string `json:"variant"` // "" is the chapter's first
	Bus     string `json:"bus"`
	Fault   string `json:"fault"`  // "" is none
	Orders  int    `json:"orders"` // 0 is 47; 1 to 2000
	// Seed moves the positions of the fault. Zero leaves them where the article has
	// them: order 13, and 13 to the last for an outage.
	Seed uint64 `json:"seed"`
	// Outage makes the outage of broker-down last at least this long.
	Outage time.Duration `json:"outage_ns,omitempty"`
	// Predicted is how many the reader expects; nil is no prediction.
	Predicted *int `json:"-"`
	// PredictedWhat is of which of the Figures; "" is delivered.
	PredictedWhat string `json:"-"`
}

// The bounds of a Spec.
const (
	DefaultOrders = 47
	MaxOrders     = 2000
	MaxOutage     = 5 * time.Minute
	firstTarget   = 13 // the article's story: twelve emails were sent
	dbDownOrders  = 8  // orders 13 to 20
)

// ErrSpec: the experiment cannot be made as asked; the message says what can.
var ErrSpec = errors.New("this run cannot be made")

// ErrNotApplicable: this fault does not exist for this chapter or bus.
var ErrNotApplicable = errors.New("does not apply")

func specError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSpec, fmt.Sprintf(format, args...))
}

// withDefaults fills in what was left out.
func (s Spec) withDefaults() Spec {
	if s.Orders == 0 {
		s.Orders = DefaultOrders
	}
	if s.Fault == "" {
		s.Fault = "none"
	}
	return s
}

// Check tells whether the experiment can be made, without making it.
func (s Spec) Check(chapters []Chapter) error {
	_, _, _, err := s.withDefaults().check(chapters, Faults())
	return err
}

// check refuses what no run can do, before anything is started.
func (s Spec) check(chapters []Chapter, faults []Fault) (Chapter, Variant, Fault, error) {
	c, ok := chapterNumbered(chapters, s.Chapter)
	if !ok {
		return c, Variant{}, Fault{}, specError("there is no chapter %d; there are 1 to %d", s.Chapter, len(chapters))
	}
	v, ok := c.Variant(s.Variant)
	if !ok {
		return c, v, Fault{}, specError("chapter %d has no variant %.60q; it has %s", s.Chapter, s.Variant, c.variantNames())
	}
	f, ok := faultNamed(faults, s.Fault)
	switch {
	case !ok:
		return c, v, f, specError("there is no fault %.60q; there are %s", s.Fault, strings.Join(FaultNames(), ", "))
	case s.Orders < 1 || s.Orders > MaxOrders:
		return c, v, f, specError("orders must be 1 to %d, not %d", MaxOrders, s.Orders)
	case s.PredictedWhat != "" && !slices.Contains(Figures(), s.PredictedWhat):
		return c, v, f, specError("%.60q cannot be predicted; these can: %s", s.PredictedWhat, strings.Join(Figures(), ", "))
	case s.Outage < 0 || s.Outage > MaxOutage:
		return c, v, f, specError("the outage must be at most %v, not %v", MaxOutage, s.Outage)
	}
	if why := f.NotApplicable(c, s.Bus); why != "" {
		return c, v, f, fmt.Errorf("%w: %s on %s in chapter %d %w: %s", ErrSpec, f.Name, s.Bus, c.Number, ErrNotApplicable, why)
	}
	return c, v, f, nil
}

// standard tells whether declarations speak of runs like this one.
func (s Spec) standard() bool {
	return s.Orders == DefaultOrders && s.Seed == 0 && s.Outage == 0
}

// span is where the fault strikes: order numbers, counted from 1.
type span struct{ from, to int }

// place returns where the fault strikes. With a seed it starts anywhere.
func (s Spec) place(f Fault) span {
	from := firstTarget
	if s.Seed != 0 {
		from = 1 + rand.New(rand.NewPCG(s.Seed, uint64(s.Orders))).IntN(s.Orders)
	}
	switch f.reach {
	case toTheEnd:
		return span{from, max(from, s.Orders)}
	case someOrders:
		return span{from, max(from, min(s.Orders, from+dbDownOrders-1))}
	}
	return span{from, from}
}

func (c Chapter) variantNames() string {
	names := make([]string, len(c.Variants))
	for i, v := range c.Variants {
		names[i] = v.Name
	}
	return strings.Join(names, ", ")
}

// FaultReport says what a fault really did.
type FaultReport struct {
	Name      string `json:"name"`
	FromOrder int    `json:"from_order,omitempty"`
	ToOrder   int    `json:"to_order,omitempty"`
	// Hits counts the affected events that reached the step in question while the
	// fault was on.
	Hits int `json:"hits"`
	// Network is what the proxy did: connections cut, dials refused, replies
	// delayed or swallowed.
	Network int64   `json:"network_hits,omitempty"`
	Ms      float64 `json:"ms,omitempty"`
}

// Smallest is the smallest counterexample: one event.
type Smallest struct {
	EventID string `json:"event_id"`
	Order   int    `json:"order"` // its number in the run, from 1
	What    string `json:"what"`  // lost, duplicated, phantom, stuck
	Why     string `json:"why"`
	Trail   string `json:"trail"` // where to read more
}

// Next is a step that suggests itself, with the command for it.
type Next struct {
	Label string `json:"label"`
	Curl  string `json:"curl"`
}

// Report is what a run measured. Verdicts come from the tables and from what the
// clients were answered, never from the code under test.
type Report struct {
	ID      string         `json:"id"`
	Valid   audit.Validity `json:"valid"`
	Chapter int            `json:"chapter"`
	Variant string         `json:"variant"`
	Bus     string         `json:"bus"`
	Mode    string         `json:"mode"`
	Version string         `json:"version,omitempty"`
	Seed    uint64         `json:"seed"`
	// Outage is how long the outage was asked to last at least, such as 30s; "" where
	// nothing was asked.
	Outage string `json:"outage,omitempty"`
	// Standard: 47 orders, no seed, the shortest outage. Only such a run can be
	// compared with a declaration.
	Standard  bool           `json:"standard"`
	Predicted map[string]int `json:"predicted,omitempty"`
	Measured  audit.Verdict  `json:"measured"`
	Late      int            `json:"late"` // delivered after the outage had ended
	Not       []string       `json:"not,omitempty"`
	AlsoNot   []string       `json:"also_not,omitempty"`
	Faults    []FaultReport  `json:"faults"`
	// Broken says when what was broken; runs stored before it was noted have none.
	Broken   []Stretch `json:"broken,omitempty"`
	Smallest *Smallest `json:"smallest,omitempty"`
	Declared string    `json:"declared"`
	AsOf     time.Time `json:"as_of"`
	Took     float64   `json:"took_ms"`
	Why      string    `json:"why"` // what the verdict rests on
	Next     []Next    `json:"next,omitempty"`
}
