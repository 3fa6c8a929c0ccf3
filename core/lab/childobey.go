package lab

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
	"outboxplayground/core/shop"
)

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

var errSimulated = errors.New("simulated business failure before commit")

// arm notes a plan in the steps of its role.
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
