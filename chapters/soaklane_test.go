package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
	"outboxplayground/infra/servers/servertest"
)

// soakChapter is the one that claims to get all of it right. With 5 the soak must fail:
// its listener does not recognise repeats.
const soakChapter = 6

// soakDatabase is one of its own: no other test's load or fault reaches it.
func soakDatabase(t *testing.T) string {
	t.Helper()
	db := pgtest.Database(t)
	if err := pg.MigratePlayground(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

// soakLane is chapter 6 on one bus: its schema, its children, its proxy.
type soakLane struct {
	t       *testing.T
	name    string
	pool    *pgxpool.Pool
	bus     bus.Bus // nil in memory
	proxy   *fault.Proxy
	chapter lab.Chapter
	spec    lab.ChildSpec
	poison  string

	mu       sync.Mutex
	children map[string]*soakChild // by role
	address  string                // of the producer
	created  []string              // what clients were told is ordered
}

// soakChild is one process of a lane.
type soakChild struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ready chan string // where the producer listens
	ended chan struct{}
}

func newSoakLane(t *testing.T, db, name string) *soakLane {
	t.Helper()
	l := &soakLane{t: t, name: name, poison: uuid.NewString(), children: map[string]*soakChild{}}
	for _, c := range contents() {
		if c.Number == soakChapter {
			l.chapter = c
		}
	}
	schema := "soak_" + uuid.NewString()[:8]
	url := ""
	if name != inMemory {
		url = servertest.URL(t, name)
	}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	l.proxy, err = fault.Listen()
	must()
	t.Cleanup(func() { l.proxy.Close() })
	err = pg.MigrateChapter(t.Context(), db, schema, soakChapter)
	must()
	l.pool, err = pg.Open(db, schema, pg.Options{MaxConns: 2})
	must()
	t.Cleanup(l.pool.Close)
	l.spec = lab.ChildSpec{Chapter: soakChapter, Bus: name, BusURL: url, Schema: schema, DatabaseURL: db,
		Proxy: l.proxy.Addr(), Poison: l.poison}
	if name != inMemory {
		l.bus, err = openBus(name, url)(t.Context(), lab.BusOptions{Schema: schema, Brief: true})
		must()
		t.Cleanup(l.removeTopic)
		err = l.bus.(bus.Topology).Prepare(t.Context(), l.chapter.Topic, shop.Group)
		must()
	}
	t.Cleanup(l.stop)
	for _, role := range l.roles() {
		l.start(role)
	}
	return l
}

func (l *soakLane) removeTopic() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := l.bus.(bus.Topology).Remove(ctx, l.chapter.Topic, shop.Group); err != nil {
		l.t.Logf("%s: topic not removed: %v", l.name, err)
	}
	l.bus.Close()
}

// roles are the processes of a lane; in memory there is one, with every role.
func (l *soakLane) roles() []string {
	if l.name == inMemory {
		return []string{lab.Producing}
	}
	return []string{lab.Producing, lab.Relaying, lab.Consuming}
}

// start runs a role in a process of its own, and waits until it is ready.
func (l *soakLane) start(role string) {
	spec := l.spec
	spec.Roles = []lab.RoleSpec{{Role: role, Label: role}}
	if l.name == inMemory {
		for _, other := range []string{lab.Relaying, lab.Consuming} {
			spec.Roles = append(spec.Roles, lab.RoleSpec{Role: other, Label: other})
		}
	}
	c := &soakChild{cmd: exec.Command(os.Args[0], childCommandName), ready: make(chan string, 1), ended: make(chan struct{})}
	c.cmd.Env = append(machineEnv(), childMark+"=1")
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.in, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		l.t.Errorf("%s: starting the %s: %v", l.name, role, err)
		return
	}
	go c.read(role, out)
	line, _ := json.Marshal(spec)
	_, _ = c.in.Write(append(line, '\n')) // a dead child is noticed below
	select {
	case address := <-c.ready:
		if l.name == inMemory {
			_, _ = c.in.Write([]byte(`{"Reconnect": "consumer"}` + "\n")) // makes the topic; the first order comes later
		}
		l.mu.Lock()
		l.children[role] = c
		if role == lab.Producing {
			l.address = address
		}
		l.mu.Unlock()
	case <-c.ended:
		l.t.Errorf("%s: the %s ended before it was ready", l.name, role)
	case <-time.After(time.Minute):
		l.t.Errorf("%s: the %s is not ready after a minute", l.name, role)
	}
}

// read follows what the child says until it is gone. It is ready when the role is that
// it was started for; in memory that is the producer, and the topic has to be made in
// there first.
func (c *soakChild) read(role string, out io.Reader) {
	defer close(c.ended)
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l lab.Line
		if json.Unmarshal(in.Bytes(), &l) == nil && l.Step == "ready" && l.Label == role {
			c.ready <- l.Text
		}
	}
	_ = c.cmd.Wait()
}

func (l *soakLane) child(role string) *soakChild {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.children[role]
}

func (l *soakLane) stop() {
	for _, role := range l.roles() {
		c := l.child(role)
		if c == nil {
			continue
		}
		_ = c.in.Close()
		select {
		case <-c.ended:
		case <-time.After(10 * time.Second):
			_ = c.cmd.Process.Kill()
			<-c.ended
		}
	}
}

// order places orders at the soak's rate, as clients that do not wait for each other.
// The tenth is the declared poison.
func (l *soakLane) order(ctx context.Context) {
	tick := time.NewTicker(time.Second / soakRate)
	defer tick.Stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		id := uuid.NewString()
		if n == 10 {
			id = l.poison
		}
		clients.Go(func() { l.place(id, n) })
	}
}

func (l *soakLane) place(id string, n int) {
	body, _ := json.Marshal(shop.Order{EventID: id, UserID: fmt.Sprint("user-", n%50), Items: []string{"A"}, Bus: l.name})
	l.mu.Lock()
	url := "http://" + l.address + "/orders"
	l.mu.Unlock()
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return // nobody knows; the tables will
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.created = append(l.created, id)
	}
}

// suffer lets one fault happen to the lane, and be over.
func (l *soakLane) suffer(ctx context.Context, b breakage) {
	role := map[string]string{"relay killed": lab.Relaying, "consumer killed": lab.Consuming, "producer killed": lab.Producing,
		"relay stopped": lab.Relaying, "consumer stopped": lab.Consuming}[b.what]
	rule, network := networkFaults()[b.what]
	switch {
	case network:
		rule.TTL = b.lasts
		if _, err := l.proxy.Inject(rule); err != nil {
			l.t.Errorf("%s: %s: %v", l.name, b.what, err)
		}
	case b.what == "relay stopped" || b.what == "consumer stopped":
		l.signal(role, syscall.SIGSTOP)
		sleepUntil(ctx, time.Now().Add(b.lasts))
		l.signal(role, syscall.SIGCONT)
	default:
		l.kill(role)
	}
}

func (l *soakLane) signal(role string, s syscall.Signal) {
	if c := l.child(role); c != nil {
		_ = c.cmd.Process.Signal(s) // one that another fault has just killed cannot be stopped
	}
}

// kill ends a process by SIGKILL, sees it dead, and starts another.
func (l *soakLane) kill(role string) {
	l.mu.Lock()
	c := l.children[role]
	delete(l.children, role) // a second fault has nothing to kill meanwhile
	l.mu.Unlock()
	if c == nil {
		return
	}
	if err := c.cmd.Process.Kill(); err != nil {
		l.t.Errorf("%s: the %s had ended by itself: %v", l.name, role, err)
	}
	<-c.ended
	l.start(role)
}

// state is a line of progress.
func (l *soakLane) state(ctx context.Context) string {
	var orders, emails int
	err := l.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM emails)`).Scan(&orders, &emails)
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%d/%d", emails, orders)
}
