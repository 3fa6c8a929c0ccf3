package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// errStale ends a batch that we may have lost to another consumer.
var errStale = errors.New("redis: out of touch for too long")

// work hands the entries to the handler, one by one, and acknowledges each. On an
// error the rest stays with the server as ours, to be read again.
func (m *member) work(ctx context.Context, entries []redis.XMessage) error {
	if len(entries) == 0 {
		return nil
	}
	k := m.keep(ctx, entries)
	defer k.stop()
	for _, x := range entries {
		if !m.handled[x.ID] && x.Values != nil { // nil: the entry was deleted
			if !k.fresh() {
				return errStale
			}
			if !m.handle(ctx, x) {
				return ctx.Err()
			}
		}
		k.done(x.ID)
		m.handled[x.ID] = true
		if err := m.ack(ctx); err != nil {
			return err
		}
	}
	return nil
}

// handle gives a message to the handler until it takes it; false when the
// subscription ended before.
func (m *member) handle(ctx context.Context, x redis.XMessage) bool {
	msg := message(m.topic, x)
	for ctx.Err() == nil {
		if m.handler(ctx, msg) == nil {
			return true
		}
		m.bus.life.Pause(ctx, retryPause)
	}
	return false
}

// ack acknowledges what was handled, also what an outage kept from being
// acknowledged earlier. It does so even when the subscription has just ended.
func (m *member) ack(ctx context.Context) error {
	if len(m.handled) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	ids := make([]string, 0, len(m.handled))
	for id := range m.handled {
		ids = append(ids, id)
	}
	if err := m.client.XAck(ctx, m.stream, m.group, ids...).Err(); err != nil {
		return err
	}
	clear(m.handled)
	return nil
}

// leave acknowledges, makes what was read and not handled look long idle, so that
// the next consumer claims it at once, and deletes the consumer's name if nothing
// is pending: deleting it with pending entries would lose them.
func (m *member) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if m.ack(ctx) != nil {
		return
	}
	ids, err := m.pending(ctx)
	switch {
	case err != nil:
	case len(ids) == 0:
		m.client.XGroupDelConsumer(ctx, m.stream, m.group, m.name)
	default:
		args := []any{"XCLAIM", m.stream, m.group, m.name, 0}
		for _, id := range ids {
			args = append(args, id)
		}
		args = append(args, "IDLE", m.bus.opt.ClaimIdle.Milliseconds(), "JUSTID")
		m.client.Do(ctx, args...)
	}
}

// pending lists the entries that are assigned to us.
func (m *member) pending(ctx context.Context) ([]string, error) {
	list, err := m.client.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: m.stream, Group: m.group, Consumer: m.name,
		Start: "-", End: "+", Count: int64(2 * m.bus.cfg.MaxUnacked),
	}).Result()
	ids := make([]string, len(list))
	for i, p := range list {
		ids[i] = p.ID
	}
	return ids, notNil(err)
}

// keeper keeps the entries of a batch from getting idle while the handler works
// through it, so that no other consumer takes them for a dead one's.
type keeper struct {
	m      *member
	cancel context.CancelFunc
	over   sync.WaitGroup

	mu    sync.Mutex
	held  map[string]bool
	touch time.Time // when they were certainly ours and not idle
}

// keep starts a keeper. The entries were read or claimed just now.
func (m *member) keep(ctx context.Context, entries []redis.XMessage) *keeper {
	ctx, cancel := context.WithCancel(ctx)
	k := &keeper{m: m, cancel: cancel, held: make(map[string]bool), touch: time.Now()}
	for _, x := range entries {
		k.held[x.ID] = true
	}
	k.over.Go(func() {
		tick := time.NewTicker(m.bus.opt.ClaimIdle / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				k.refresh(ctx)
			}
		}
	})
	return k
}

func (k *keeper) stop() {
	k.cancel()
	k.over.Wait()
}

func (k *keeper) done(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, id)
}

// fresh says whether the batch is still ours beyond doubt. It is not after the
// process was stopped or cut off for as long as a claim takes.
func (k *keeper) fresh() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.touch) < k.m.bus.opt.ClaimIdle
}

// refresh resets the idle time of the held entries that are still ours: XCLAIM
// does not ask whose they are, and must not steal back what others have claimed.
func (k *keeper) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	began := time.Now()
	ours, err := k.m.pending(ctx)
	if err != nil {
		return
	}
	k.mu.Lock()
	ids := make([]string, 0, len(ours))
	for _, id := range ours {
		if k.held[id] {
			ids = append(ids, id)
		}
	}
	all := len(ids) == len(k.held)
	k.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	err = k.m.client.XClaimJustID(ctx, &redis.XClaimArgs{
		Stream: k.m.stream, Group: k.m.group, Consumer: k.m.name, Messages: ids,
	}).Err()
	if err == nil && all {
		k.mu.Lock()
		k.touch = began
		k.mu.Unlock()
	}
}
