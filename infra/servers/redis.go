package servers

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// redis runs redis-server, with every write in its append-only file before it is
// answered, or else miniredis.
func redis(_ context.Context, s site) (plan, error) {
	program := findRedis()
	switch {
	case s.Form == Fake, s.Form == "" && program == "":
		return fakeRedis(s), nil
	case program == "":
		return plan{}, missing("redis")
	}
	as := unprivileged("redis", "valkey")
	if err := owned(s.dir, as); err != nil {
		return plan{}, err
	}
	url := "redis://" + address(s.port)
	args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir, "--daemonize", "no",
		"--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	return plan{url: url, mode: Real, note: "appendfsync always: a write is on disk before its answer", engine: &processes{
		log:      filepath.Join(s.dir, "redis.log"),
		specs:    []spec{{path: program, args: args, dir: s.dir, as: as, stop: syscall.SIGTERM, death: syscall.SIGTERM}},
		ready:    func(ctx context.Context) error { _, err := Probe(ctx, "redis", url); return err },
		patience: 30 * time.Second,
		again:    []string{"Address already in use"},
	}}, nil
}

func findRedis() string {
	return findProgram("redis-server", "/opt/homebrew/bin/redis-server", "/usr/local/bin/redis-server", "/usr/bin/valkey-server")
}

func fakeRedis(s site) plan {
	return plan{url: "redis://" + address(s.port), mode: Fake, version: withVersion("miniredis", "github.com/alicebob/miniredis/v2"),
		note:   "a double (miniredis): no disk, so nothing survives this process; consumer-group statistics are not modelled",
		engine: &doubleRedis{addr: address(s.port), data: miniredis.NewMiniRedis()}}
}

// doubleRedis is miniredis with a clock: by itself it never lets a key expire.
type doubleRedis struct {
	addr string
	data *miniredis.Miniredis
	halt context.CancelFunc // nil while it does not run
	done chan struct{}
}

const redisTick = 50 * time.Millisecond

func (d *doubleRedis) start(context.Context) error {
	// Close has ended the context on which blocking commands wait; without a new
	// one they would all return at once after a restart.
	d.data.Ctx, d.data.CtxCancel = context.WithCancel(context.Background())
	if err := d.data.StartAddr(d.addr); err != nil {
		return err
	}
	ctx, halt := context.WithCancel(context.Background())
	d.halt, d.done = halt, make(chan struct{})
	go d.tick(ctx)
	return nil
}

func (d *doubleRedis) tick(ctx context.Context) {
	defer close(d.done)
	ticker := time.NewTicker(redisTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			d.data.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (d *doubleRedis) kill() error {
	if d.halt == nil {
		return nil
	}
	d.halt()
	<-d.done
	d.halt = nil
	d.data.Close()
	return nil
}

func (d *doubleRedis) stop(context.Context) error { return d.kill() }

func (d *doubleRedis) pid() int { return os.Getpid() }
