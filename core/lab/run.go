package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
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
// not over at its deadline, is a Result with Valid "unknown".
func (l *Lab) Run(ctx context.Context, spec Spec, tell func(Progress)) (Result, error) {
	return l.runAs(ctx, newRunID(), spec.withDefaults(), nil, tell)
}

// runAs is Run under a given id, alone or with an outage shared with other runs.
func (l *Lab) runAs(ctx context.Context, id string, spec Spec, shared *sharedOutage, tell func(Progress)) (Result, error) {
	c, v, f, err := spec.check(l.Chapters)
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

	report  FaultReport
	hits    func() int // set by the plot, asked when the journal is complete
	outage  *fault.Injected
	outages []outageSpan
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
	r.tell(Progress{Stage: "judging", Done: r.placed, Total: r.spec.Orders})
	// The deadline may be what ended the story; the verdict is made all the same.
	judging, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	r.report.Hits = r.countHits(judging)
	return r.judge(judging)
}

// prepare makes the run's own schema, topic and children.
func (r *run) prepare(ctx context.Context, url string) (err error) {
	if r.lock, err = takeLock(ctx, r.lab.DatabaseURL, r.schema); err != nil {
		return err
	}
	if err := pg.MigrateChapter(ctx, r.lab.DatabaseURL, r.schema, r.chapter.Number); err != nil {
		return err
	}
	if r.pool, err = pg.Open(r.lab.DatabaseURL, r.schema, pg.Options{MaxConns: 2, AppName: r.schema + " lab"}); err != nil {
		return err
	}
	if r.shared != nil {
		r.proxy = r.shared.proxy
	} else if r.proxy, err = fault.Listen(); err != nil {
		return err
	}
	r.childSpec.Proxy = r.proxy.Addr()
	if r.memory() {
		return r.startChildren(ctx)
	}
	if err := remember(ctx, r.pool, r.schema, r.spec.Bus, r.chapter.Topic); err != nil {
		return err
	}
	r.bus, err = r.lab.Open(r.spec.Bus, url)(ctx, BusOptions{Schema: r.schema, DedupeWindow: r.variant.DedupeWindow})
	if err != nil {
		return err
	}
	if t, ok := r.bus.(bus.Topology); ok {
		if err := t.Prepare(ctx, r.chapter.Topic, shop.Group); err != nil {
			return err
		}
	}
	return r.startChildren(ctx)
}

func (r *run) memory() bool { return r.spec.Bus == "inmemory" }

// startChildren starts what is missing of the roles: each in a process of its own,
// or all in one where the broker is the process.
func (r *run) startChildren(ctx context.Context) error {
	roles := []RoleSpec{{Role: Producing, Label: Producing}, {Role: Consuming, Label: Consuming}}
	if r.variant.Relay != nil {
		roles = append(roles, RoleSpec{Role: Relaying, Label: Relaying})
	}
	if r.fault.Name == "poison" {
		r.childSpec.Poison = r.target()
	}
	if r.memory() {
		if r.variant.Relay != nil {
			roles = append(roles, RoleSpec{Role: Relaying, Label: secondRelay, Wait: true})
		}
		if r.find(Producing) != nil {
			return nil
		}
		_, err := r.spawn(ctx, roles...)
		return err
	}
	for _, role := range roles {
		if r.find(role.Label) != nil {
			continue
		}
		if _, err := r.spawn(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

// find returns the living child that has a label.
func (r *run) find(label string) *process {
	for _, p := range r.procs {
		for _, role := range p.roles {
			if role.Label == label && !p.over() {
				return p
			}
		}
	}
	return nil
}

// target is the event that the fault is about; "" when the run is too short for it.
func (r *run) target() string {
	if r.span.from > len(r.ids) {
		return ""
	}
	return r.ids[r.span.from-1]
}

// The answers that a client may have got.
const (
	created = "created"
	refused = "refused"
	noReply = "none"
)

// placeTo places orders, one after the other, up to and including number n.
func (r *run) placeTo(ctx context.Context, n int) error {
	for r.placed < n && r.placed < len(r.ids) {
		if err := r.place(ctx, r.placed); err != nil {
			return err
		}
		r.placed++
		r.tell(Progress{Stage: "running", Done: r.placed, Total: r.spec.Orders})
	}
	return nil
}

// place places one order as any client does, and notes what the client saw.
func (r *run) place(ctx context.Context, i int) error {
	body, err := json.Marshal(shop.Order{EventID: r.ids[i], UserID: fmt.Sprintf("user-%d", i+1), Items: []string{"A", "B"}, Bus: r.spec.Bus})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.address+"/orders", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Close = true // a new connection each, so that a restarted producer is met afresh
	r.journal.add(Line{At: time.Now(), Label: "client", Step: "order", EventID: r.ids[i]})
	r.answers[i] = noReply
	text := "no answer"
	if resp, err := http.DefaultClient.Do(req); err == nil {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		_ = resp.Body.Close()
		r.answers[i] = refused
		switch {
		case resp.StatusCode == http.StatusCreated:
			r.answers[i] = created
		case resp.Header.Get("X-Code") == "commit_unknown":
			r.answers[i] = noReply
		}
		text = fmt.Sprintf("%d %s", resp.StatusCode, bytes.TrimSpace(why))
	}
	r.journal.add(Line{At: time.Now(), Label: "client", Step: sayAnswer, EventID: r.ids[i], Text: text})
	return ctx.Err()
}
