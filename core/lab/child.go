package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// ChildEnv is what main hands to a child.
type ChildEnv struct {
	Chapters []Chapter
	// Open returns how to open a bus at a URL.
	Open func(name, url string) OpenBus
	In   io.Reader
	Out  io.Writer
}

var errSimulated = errors.New("simulated business failure before commit")

// RunChild is the whole life of a child: it reads its spec, runs its roles, obeys,
// and ends when its standard input does, which it does when the lab dies.
func RunChild(ctx context.Context, env ChildEnv) error {
	in := bufio.NewScanner(env.In)
	in.Buffer(nil, 1<<20)
	if !in.Scan() {
		return errors.New("a child of the lab is started by the lab only")
	}
	var spec ChildSpec
	if err := json.Unmarshal(in.Bytes(), &spec); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &child{spec: spec, out: env.Out, roles: map[string]*role{}, holds: map[string]chan struct{}{}}
	if err := c.open(ctx, env); err != nil {
		return err
	}
	defer c.close()
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range spec.Roles {
		g.Go(func() error { return c.runRole(ctx, r) })
	}
	// Not in the group: a read from standard input cannot be cancelled. It ends with
	// the process.
	go func() {
		defer cancel()
		for in.Scan() {
			c.obey(in.Bytes())
		}
	}()
	return g.Wait()
}

// child is the state of a child process.
type child struct {
	spec    ChildSpec
	chapter Chapter
	variant Variant
	bus     map[string]bus.Bus // by label; in memory all labels share one
	pools   map[string]*pgxpool.Pool
	conns   map[string]*pgx.ConnConfig

	mu    sync.Mutex // guards what follows, and the order of lines
	out   io.Writer
	roles map[string]*role
	holds map[string]chan struct{}
}

type role struct {
	steps *checkpoint.Steps
	start chan struct{} // closed when it may run
	once  sync.Once
	stop  context.CancelFunc
}

// begin lets the role run. Twice is harmless.
func (r *role) begin() { r.once.Do(func() { close(r.start) }) }

func (c *child) open(ctx context.Context, env ChildEnv) error {
	var ok bool
	if c.chapter, ok = find(env.Chapters, c.spec.Chapter); !ok {
		return fmt.Errorf("there is no chapter %d", c.spec.Chapter)
	}
	c.variant, _ = c.chapter.Variant(c.spec.Variant)
	c.bus, c.pools, c.conns = map[string]bus.Bus{}, map[string]*pgxpool.Pool{}, map[string]*pgx.ConnConfig{}
	for _, r := range c.spec.Roles {
		if err := c.openRole(ctx, env, r); err != nil {
			return errors.Join(err, c.close())
		}
	}
	return nil
}

func (c *child) openRole(ctx context.Context, env ChildEnv, r RoleSpec) (err error) {
	steps := &checkpoint.Steps{Observe: func(at checkpoint.Name, id string) { c.say(r.Label, string(at), id, "") }}
	c.roles[r.Label] = &role{steps: steps, start: make(chan struct{}), stop: func() {}}
	if !r.Wait {
		c.roles[r.Label].begin()
	}
	options := pg.Options{AppName: c.spec.Schema + " " + r.Label, Dial: fault.Dialer(c.spec.Proxy, "db/"+r.Label)}
	if c.pools[r.Label], err = pg.Open(c.spec.DatabaseURL, c.spec.Schema, options); err != nil {
		return err
	}
	if c.conns[r.Label], err = pg.ConnConfig(c.spec.DatabaseURL, c.spec.Schema, options); err != nil {
		return err
	}
	if c.spec.Bus == "inmemory" && len(c.bus) > 0 {
		for _, shared := range c.bus {
			c.bus[r.Label] = shared
			return nil
		}
	}
	b, err := env.Open(c.spec.Bus, c.spec.BusURL)(ctx, BusOptions{Schema: c.spec.Schema, Brief: true,
		Dial: fault.Dialer(c.spec.Proxy, "bus/"+r.Label), DedupeWindow: c.variant.DedupeWindow})
	c.bus[r.Label] = b
	return err
}

func (c *child) close() error {
	var errs []error
	closed := map[bus.Bus]bool{}
	for _, b := range c.bus {
		if b != nil && !closed[b] {
			closed[b] = true
			errs = append(errs, b.Close())
		}
	}
	for _, p := range c.pools {
		if p != nil {
			p.Close()
		}
	}
	return errors.Join(errs...)
}

// say writes one line, in one write.
func (c *child) say(label, step, id, text string) {
	line, _ := json.Marshal(Line{At: time.Now(), Label: label, Step: step, EventID: id, Text: text})
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.Write(append(line, '\n')) // nobody reads: the lab is gone, and so are we soon
}

// obey does what a line says. Unknown names are the lab's mistake and show as a
// plan that never fires.
func (c *child) obey(line []byte) {
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return
	}
	c.mu.Lock()
	hold, role := c.holds[o.Release], c.roles[o.Start+o.Stop]
	delete(c.holds, o.Release)
	known := o.Arm == nil || c.roles[o.Arm.Label] != nil
	stop := func() {}
	if role != nil {
		stop = role.stop
	}
	c.mu.Unlock()
	switch {
	case !known:
	case o.Arm != nil:
		c.arm(*o.Arm)
	case o.Reconnect != "":
		c.reconnect(o.Reconnect)
	case o.Backlog != "":
		c.backlog(o.Backlog)
	case o.Echo != "":
		c.say("", sayEcho, "", o.Echo)
	case hold != nil:
		close(hold)
	case role != nil && o.Start != "":
		role.begin()
	default:
		stop()
	}
}

func (c *child) arm(p PlanSpec) {
	plan := checkpoint.Plan{At: p.At, EventID: p.EventID}
	switch p.Do {
	case doFail:
		plan.Do = func(context.Context) error { return errSimulated }
	case doCrash:
		plan.Do = fault.Crash
	case doHold:
		released := make(chan struct{})
		c.mu.Lock()
		c.holds[p.name()] = released
		c.mu.Unlock()
		plan.Do = func(ctx context.Context) error {
			select {
			case <-released:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	c.roles[p.Label].steps.Arm(plan)
	c.say(p.Label, sayArmed, p.EventID, p.name())
}

// reconnectLimit bounds the wait for a broker that is there.
const reconnectLimit = 15 * time.Second

// reconnect says when the bus of a role can be reached. Preparing what exists
// already changes nothing, and succeeds only on a connection that works.
func (c *child) reconnect(label string) {
	ctx, cancel := context.WithTimeout(context.Background(), reconnectLimit)
	defer cancel()
	text := ""
	if t, ok := c.bus[label].(bus.Topology); ok {
		if err := t.Prepare(ctx, c.chapter.Topic, shop.Group); err != nil {
			text = err.Error()
		}
	}
	c.say(label, sayConnected, "", text)
}

// backlog says what the bus holds, as this process sees it: what its own consumer
// has in hand is counted, which RabbitMQ tells nobody else.
func (c *child) backlog(label string) {
	ctx, cancel := context.WithTimeout(context.Background(), reconnectLimit)
	defer cancel()
	text := "0"
	if b, ok := c.bus[label].(bus.Backlogger); ok {
		n, err := b.Backlog(ctx, c.chapter.Topic, shop.Group)
		if text = strconv.FormatInt(n, 10); err != nil {
			text = err.Error()
		}
	}
	c.say(label, sayBacklog, "", text)
}

func (c *child) deps(label string) Deps {
	return Deps{DB: c.pools[label], Bus: &told{Bus: c.bus[label], child: c, label: label},
		BusName: c.spec.Bus, Steps: c.roles[label].steps, Gate: pg.Gate(c.spec.Schema),
		Schema: c.spec.Schema, ConnConfig: c.conns[label].Copy, Log: slog.New(slog.DiscardHandler)}
}
