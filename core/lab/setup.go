package lab

import (
	"context"
	"log/slog"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/fault"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// prepareLimit bounds the preparation: a broker that cannot be reached is an error
// long before the run's own deadline.
const prepareLimit = 60 * time.Second

// prepare makes the run's own schema, topic and children.
func (r *run) prepare(ctx context.Context, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	if err := r.lab.migrate(ctx); err != nil {
		return err
	}
	if r.lock, err = takeLock(ctx, r.lab.DatabaseURL, r.schema); err != nil {
		return err
	}
	// Before anything is noted or made: the pool is what removes it, at whatever moment
	// the run is broken off. Opening it connects to nothing.
	if r.pool, err = pg.Open(r.lab.DatabaseURL, r.schema, pg.Options{MaxConns: 2, AppName: r.schema + " lab"}); err != nil {
		return err
	}
	if err := remember(ctx, r.lock.conn, r.schema, r.spec.Bus, r.chapter.Topic); err != nil {
		return err
	}
	if err := pg.MigrateChapter(ctx, r.lab.DatabaseURL, r.schema, r.chapter.Number); err != nil {
		return err
	}
	if err := r.prepareVariant(ctx); err != nil {
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
	r.bus, err = r.lab.Open(r.spec.Bus, url)(ctx, BusOptions{Schema: r.schema, Brief: true, DedupeWindow: r.variant.DedupeWindow})
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

// prepareVariant lets the variant make what its lane needs, over the lab's own connections.
func (r *run) prepareVariant(ctx context.Context) error {
	if r.variant.Prepare == nil {
		return nil
	}
	own, err := pg.ConnConfig(r.lab.DatabaseURL, r.schema, pg.Options{AppName: r.schema + " lab"})
	if err != nil {
		return err
	}
	return r.variant.Prepare(ctx, Deps{DB: r.pool, BusName: r.spec.Bus, Schema: r.schema,
		ConnConfig: own.Copy, Log: slog.New(slog.DiscardHandler)})
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
