package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
)

// Lab runs experiments. Its fields are set once; Run may be called side by side.
type Lab struct {
	Chapters    []Chapter
	DatabaseURL string
	// Bus says what a bus is and where.
	Bus func(name string) (info BusInfo, url string, err error)
	// Open returns how to open a bus at a URL.
	Open func(name, url string) OpenBus
	// Exe is the command of a child, Env its environment.
	Exe, Env []string
	// Extra are faults besides the listed ones.
	Extra []Fault

	migrated atomic.Bool
}

// Progress is told while a run goes on.
type Progress struct {
	Stage string `json:"stage"` // preparing, running, waiting, judging, done
	Done  int    `json:"done"`  // orders placed
	Total int    `json:"total"`
	Text  string `json:"text,omitempty"`
}

// runLimit bounds a run besides the outage that its spec asks for.
const runLimit = 2 * time.Minute

// Result is a report with the trail and the timeline of every event.
type Result struct {
	Report Report
	Trails []EventTrail
}

// EventTrail is one event of a run: what the tables said of it, what its order's
// client was answered, and the steps it passed.
type EventTrail struct {
	Order    int         `json:"order"`
	Answer   string      `json:"answer"` // created, refused, none
	Trail    audit.Trail `json:"trail"`
	Timeline []Line      `json:"timeline"`
}

// Run makes one experiment and cleans up after it, whatever happens. ErrSpec comes
// before anything is started; an experiment whose fault did not hit, or which was
// not over at its deadline, is a Result with Valid "unknown". One that the caller
// breaks off is no result but the context's error.
func (l *Lab) Run(ctx context.Context, spec Spec, tell func(Progress)) (Result, error) {
	return l.runAs(ctx, newRunID(), spec.withDefaults(), nil, tell)
}

// runAs is Run under a given id, alone or with an outage shared with other runs.
func (l *Lab) runAs(ctx context.Context, id string, spec Spec, shared *sharedOutage, tell func(Progress)) (Result, error) {
	c, v, f, err := spec.check(l.Chapters, append(Faults(), l.Extra...))
	if err != nil {
		return Result{}, err
	}
	info, url, err := l.Bus(spec.Bus)
	if err != nil {
		return Result{}, err
	}
	if tell == nil {
		tell = func(Progress) {}
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit+spec.Outage)
	defer cancel()
	r := &run{lab: l, spec: spec, chapter: c, variant: v, fault: f, info: info, span: spec.place(f),
		shared: shared, id: id, schema: "run_" + id, journal: newJournal(), tell: tell, began: time.Now(),
		ids: make([]string, spec.Orders), answers: make([]string, spec.Orders)}
	for i := range r.ids {
		r.ids[i] = uuid.NewString()
	}
	r.childSpec = ChildSpec{Chapter: c.Number, Variant: v.Name, Bus: spec.Bus, BusURL: url,
		Schema: r.schema, DatabaseURL: l.DatabaseURL}
	defer r.cleanUp(ctx)
	return r.make(ctx, url)
}

func newRunID() string {
	id := uuid.New()
	return fmt.Sprintf("%x", id[:5])
}

// run is one experiment under way. It belongs to one goroutine, apart from the
// journal, which the children's readers fill.
type run struct {
	lab       *Lab
	spec      Spec
	chapter   Chapter
	variant   Variant
	fault     Fault
	info      BusInfo
	span      span
	shared    *sharedOutage // nil: the run has its outage for itself
	id        string
	schema    string
	childSpec ChildSpec
	tell      func(Progress)
	began     time.Time

	lock    *lock
	pool    *pgxpool.Pool
	bus     bus.Bus // the lab's own connection, which no fault touches
	proxy   *fault.Proxy
	journal *journal
	readers sync.WaitGroup
	procs   []*process
	address string // where the producer takes orders

	ids     []string
	answers []string
	placed  int
	log     logMark

	report  FaultReport
	hits    func() int // set by the plot, asked when the journal is complete
	outage  *fault.Injected
	outages []outageSpan
	stopped []Stretch // processes that stood still
	over    bool
}

// outageSpan is when the network was broken, for the timeline and for "late".
type outageSpan struct {
	what       string
	begin, end time.Time
}

// make prepares, tells the story, waits for its end and judges.
func (r *run) make(ctx context.Context, url string) (Result, error) {
	r.tell(Progress{Stage: "preparing", Total: r.spec.Orders})
	if err := r.prepare(ctx, url); err != nil {
		return Result{}, fmt.Errorf("run %s: preparing: %w", r.id, err)
	}
	r.report = FaultReport{Name: r.fault.Name}
	if r.fault.Name != "none" {
		r.report.FromOrder, r.report.ToOrder = r.span.from, r.span.to
	}
	err := r.fault.plot(ctx, r)
	if errors.Is(err, errNoHit) {
		err = r.placeTo(ctx, r.spec.Orders)
	}
	if err != nil && ctx.Err() == nil {
		return Result{}, fmt.Errorf("run %s: %s: %w", r.id, r.fault.Name, err)
	}
	if err == nil {
		r.tell(Progress{Stage: "waiting", Done: r.placed, Total: r.spec.Orders})
		r.over = r.quiesce(ctx) == nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return Result{}, fmt.Errorf("run %s: broken off: %w", r.id, ctx.Err())
	}
	r.tell(Progress{Stage: "judging", Done: r.placed, Total: r.spec.Orders})
	// The deadline may be what ended the story; the verdict is made all the same.
	judging, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	r.report.Hits = r.countHits(judging)
	return r.judge(judging)
}
