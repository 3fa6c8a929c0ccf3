package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// nobus is a double: a bus that takes everything, keeps it, and delivers nothing.
// The topic that nobody prepares is refused, as a broker does.
type nobus struct {
	mu     sync.Mutex
	topics []string
	closed int
}

func (b *nobus) Publish(_ context.Context, msgs ...bus.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range msgs {
		if m.Topic == nowhere {
			return fmt.Errorf("no such topic: %w", bus.ErrRejected)
		}
		b.topics = append(b.topics, m.Topic)
	}
	return nil
}

func (b *nobus) Subscribe(ctx context.Context, _, _ string, _ bus.Handler) error {
	<-ctx.Done()
	return nil
}

func (b *nobus) Close() error { b.closed++; return nil }

func (b *nobus) Prepare(context.Context, string, ...string) error { return nil }
func (b *nobus) Remove(context.Context, string, ...string) error  { return nil }

// toy is a producer that passes two steps and publishes.
type toy struct{ d Deps }

func (p *toy) PlaceOrder(ctx context.Context, o shop.Order) error {
	if o.UserID == "lost-commit" {
		return pg.ErrCommitUnknown
	}
	if err := p.d.Steps.Reach(ctx, checkpoint.BeforeCommit, o.EventID); err != nil {
		return err
	}
	return p.d.Bus.Publish(ctx, shop.OrderPlaced(o, "plain"))
}

// patient is a relay that works until it is stopped.
type patient struct{}

func (patient) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// talk is a conversation with a child that runs in this process.
type talk struct {
	t       *testing.T
	in      io.WriteCloser
	journal *journal
	heard   int
	bus     *nobus
	ended   chan error
}

func startChild(t *testing.T, spec ChildSpec) *talk {
	t.Helper()
	chapters := testChapters()
	for i := range chapters {
		for j := range chapters[i].Variants {
			v := &chapters[i].Variants[j]
			v.Producer = func(d Deps) Producer { return &toy{d} }
			v.Relay = func(Deps) Runner { return patient{} }
		}
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &talk{t: t, in: inW, journal: newJournal(), bus: &nobus{}, ended: make(chan error, 1)}
	open := func(string, string) OpenBus {
		return func(context.Context, BusOptions) (bus.Bus, error) { return c.bus, nil }
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		c.ended <- RunChild(context.WithoutCancel(t.Context()), ChildEnv{Chapters: chapters, Open: open, In: inR, Out: outW})
		_ = outW.Close()
	})
	parts.Go(func() {
		for lines := bufio.NewScanner(outR); lines.Scan(); {
			var l Line
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				t.Errorf("not a line: %s", lines.Bytes())
			}
			c.journal.add(l)
		}
	})
	t.Cleanup(func() { _ = inW.Close(); parts.Wait() })
	c.say(spec)
	return c
}

func (c *talk) say(v any) {
	c.t.Helper()
	line, err := json.Marshal(v)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		c.t.Fatal(err)
	}
}

// hear waits for a line that has not been heard before.
func (c *talk) hear(label, step string) Line {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	line, _, err := c.journal.await(ctx, nil, c.heard, func(l Line) bool { return l.Label == label && l.Step == step })
	if err != nil {
		c.t.Fatalf("%s never says %s: %v; it said %+v", label, step, err, c.journal.all())
	}
	return line
}

func (c *talk) order(address, id, user string) (status int, header http.Header) {
	c.t.Helper()
	body, _ := json.Marshal(shop.Order{EventID: id, UserID: user})
	resp, err := http.Post("http://"+address+"/orders", "application/json", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

func producing() ChildSpec {
	return ChildSpec{Chapter: 1, Bus: "nats", Schema: "run_x", DatabaseURL: "postgres://127.0.0.1:1/none",
		Roles: []RoleSpec{{Role: Producing, Label: Producing}}}
}

func TestChildTakesOrdersAndFailsOnOrder(t *testing.T) {
	spec := producing()
	spec.Poison = "poisoned"
	c := startChild(t, spec)
	at := c.hear(Producing, sayReady).Text
	if status, _ := c.order(at, "one", "u"); status != http.StatusCreated {
		t.Errorf("an order: %d", status)
	}
	if l := c.hear(Producing, string(checkpoint.BeforeCommit)); l.EventID != "one" {
		t.Errorf("%+v", l)
	}
	c.say(order{Arm: &PlanSpec{Label: Producing, At: checkpoint.BeforeCommit, EventID: "two", Do: doFail}})
	c.hear(Producing, sayArmed)
	if status, _ := c.order(at, "two", "u"); status != http.StatusUnprocessableEntity {
		t.Errorf("an order that shall fail: %d", status)
	}
	if status, _ := c.order(at, "two", "u"); status != http.StatusCreated {
		t.Errorf("the plan fired twice: %d", status)
	}
	if status, h := c.order(at, "three", "lost-commit"); status != http.StatusServiceUnavailable || h.Get("X-Code") != "commit_unknown" {
		t.Errorf("a lost COMMIT: %d %v", status, h)
	}
	if status, _ := c.order(at, "poisoned", "u"); status != http.StatusServiceUnavailable {
		t.Errorf("the poisoned event: %d", status)
	}
	if l := c.hear(Producing, sayFailed); l.EventID != "poisoned" || !strings.HasPrefix(l.Text, "rejected: ") {
		t.Errorf("%+v", l)
	}
	if want := []string{"plain", "plain"}; !slices.Equal(c.bus.topics, want) {
		t.Errorf("published to %v, want %v", c.bus.topics, want)
	}
}

func TestChildHoldsUntilReleased(t *testing.T) {
	c := startChild(t, producing())
	at := c.hear(Producing, sayReady).Text
	plan := PlanSpec{Label: Producing, At: checkpoint.BeforeCommit, EventID: "one", Do: doHold}
	c.say(order{Arm: &plan})
	c.hear(Producing, sayArmed)
	answered := make(chan int, 1)
	go func() {
		status, _ := c.order(at, "one", "u")
		answered <- status
	}()
	c.hear(Producing, string(checkpoint.BeforeCommit))
	if status, _ := c.order(at, "two", "u"); status != http.StatusCreated {
		t.Errorf("another order, meanwhile: %d", status)
	}
	select {
	case status := <-answered:
		t.Fatalf("a held order was answered: %d", status)
	default:
	}
	c.say(order{Release: plan.name()})
	if status := <-answered; status != http.StatusCreated {
		t.Errorf("after its release: %d", status)
	}
}

func TestChildStartsAndStopsRoles(t *testing.T) {
	spec := producing()
	spec.Bus = "inmemory"
	spec.Roles = append(spec.Roles, RoleSpec{Role: Relaying, Label: secondRelay, Wait: true})
	c := startChild(t, spec)
	c.hear(Producing, sayReady)
	c.say(order{Echo: "hello"})
	if l := c.hear("", sayEcho); l.Text != "hello" {
		t.Errorf("%+v", l)
	}
	if slices.ContainsFunc(c.journal.all(), func(l Line) bool { return l.Label == secondRelay }) {
		t.Errorf("the second relay did not wait: %+v", c.journal.all())
	}
	c.say(order{Start: secondRelay})
	c.hear(secondRelay, sayReady)
	c.say(order{Stop: secondRelay})
	c.hear(secondRelay, sayStopped)
	c.say(order{Reconnect: Producing})
	if l := c.hear(Producing, sayConnected); l.Text != "" {
		t.Errorf("%+v", l)
	}
}

// The child ends with its standard input, which ends with the lab, and closes its
// one bus once.
func TestChildEndsWithItsInput(t *testing.T) {
	spec := producing()
	spec.Bus = "inmemory"
	spec.Roles = append(spec.Roles, RoleSpec{Role: Relaying, Label: Relaying}, RoleSpec{Role: Consuming, Label: Consuming})
	c := startChild(t, spec)
	for _, label := range []string{Producing, Relaying, Consuming} {
		c.hear(label, sayReady)
	}
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it lives on")
	}
	if c.bus.closed != 1 {
		t.Errorf("the bus was closed %d times", c.bus.closed)
	}
}

// What the lab says wrong does not end a child: it shows as a plan that never fires.
func TestChildSurvivesNonsense(t *testing.T) {
	c := startChild(t, producing())
	c.hear(Producing, sayReady)
	for _, o := range []any{"not an order", order{}, order{Release: "nothing"}, order{Start: "nobody"}, order{Stop: "nobody"},
		order{Start: Producing}, order{Reconnect: "nobody"}, order{Arm: &PlanSpec{Label: "nobody", Do: doFail}}} {
		c.say(o)
	}
	c.say(order{Echo: "still here"})
	c.hear("", sayEcho)
}

func TestChildNeedsALab(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "started by the lab only"},
		{"hello\n", "invalid character"},
		{`{"Chapter": 99}` + "\n", "no chapter 99"},
	} {
		err := RunChild(t.Context(), ChildEnv{Chapters: testChapters(), In: strings.NewReader(c.in), Out: io.Discard})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.in, err, c.want)
		}
	}
	if err := RunChild(t.Context(), ChildEnv{In: strings.NewReader(""), Out: io.Discard}); errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
