package lab

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"outboxplayground/core/bus"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// runRole runs one role until it is stopped or ctx ends.
func (c *child) runRole(ctx context.Context, r RoleSpec) error {
	self := c.roles[r.Label]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	self.stop = cancel
	c.mu.Unlock()
	defer c.say(r.Label, sayStopped, "", "")
	select {
	case <-ctx.Done():
		return nil
	case <-self.start:
	}
	deps := c.deps(r.Label)
	switch r.Role {
	case Producing:
		g, ctx := errgroup.WithContext(ctx)
		if c.variant.Recovers != nil {
			g.Go(func() error { return c.variant.Recovers(deps).Run(ctx) })
		}
		g.Go(func() error { return c.produce(ctx, r.Label, c.variant.Producer(deps)) })
		return g.Wait()
	case Relaying:
		c.say(r.Label, sayReady, "", "")
		return c.variant.Relay(deps).Run(ctx)
	default:
		c.say(r.Label, sayReady, "", "")
		return deps.Bus.Subscribe(ctx, c.chapter.Topic, shop.Group, c.variant.Consumer(deps))
	}
}

// produce takes orders over HTTP until ctx ends.
func (c *child) produce(ctx context.Context, label string, p Producer) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: takeOrders(p), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	c.say(label, sayReady, "", l.Addr().String())
	select {
	case <-ctx.Done():
	case err := <-served:
		return err
	}
	shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = server.Shutdown(shut)
	<-served
	return err
}

// takeOrders answers as the playground's own API does: 201 kept, 422 and 503 not
// kept, 503 with commit_unknown when nobody can tell.
func takeOrders(p Producer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o shop.Order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		// Not the request's context: an order that is being placed is finished, also
		// when the customer has gone away.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 15*time.Second)
		defer cancel()
		switch err := p.PlaceOrder(ctx, o); {
		case err == nil:
			w.WriteHeader(http.StatusCreated)
		case errors.Is(err, errSimulated):
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		case errors.Is(err, pg.ErrCommitUnknown):
			w.Header().Set("X-Code", "commit_unknown")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

// told is the bus that a child hands to its chapter: it tells the lab why a publish
// failed, and sends the poisoned event where nothing is. The driver and the broker
// refuse it themselves.
type told struct {
	bus.Bus
	child *child
	label string
}

// nowhere is a topic that nobody prepares.
const nowhere = "nowhere"

// Publish passes the messages on.
func (b *told) Publish(ctx context.Context, msgs ...bus.Message) error {
	sent := msgs
	for i, m := range msgs {
		if b.child.spec.Poison != "" && m.ID == b.child.spec.Poison {
			sent = append([]bus.Message(nil), msgs...)
			sent[i].Topic = nowhere
		}
	}
	err := b.Bus.Publish(ctx, sent...)
	for i, m := range msgs {
		if failure := bus.Outcome(err, i); failure != nil {
			b.child.say(b.label, sayFailed, m.ID, bus.Classify(failure).String()+": "+failure.Error())
		}
	}
	return err
}
