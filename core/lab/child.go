package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
	"outboxplayground/core/pg"
)

// ChildEnv is what main hands to a child.
type ChildEnv struct {
	Chapters []Chapter
	// Open returns how to open a bus at a URL.
	Open func(name, url string) OpenBus
	In   io.Reader
	Out  io.Writer
}

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
	if c.chapter, ok = chapterNumbered(env.Chapters, c.spec.Chapter); !ok {
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

func (c *child) deps(label string) Deps {
	return Deps{DB: c.pools[label], Bus: &told{Bus: c.bus[label], child: c, label: label},
		BusName: c.spec.Bus, Steps: c.roles[label].steps, Gate: pg.Gate(c.spec.Schema),
		Schema: c.spec.Schema, ConnConfig: c.conns[label].Copy, Log: slog.New(slog.DiscardHandler)}
}
