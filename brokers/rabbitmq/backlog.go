package rabbitmq

import (
	"context"
	"fmt"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// counter counts the messages of one queue that consumers of this Bus hold.
type counter struct{ atomic.Int64 }

func (b *Bus) counter(queue string) *counter {
	b.heldMu.Lock()
	defer b.heldMu.Unlock()
	if b.held[queue] == nil {
		b.held[queue] = &counter{}
	}
	return b.held[queue]
}

// Backlog returns how many messages wait in the group's queue, plus how many the
// subscriptions of this Bus hold unacknowledged.
//
// What it cannot see: messages in the hands of consumers of other processes. AMQP
// tells the number of waiting messages only, and the management plugin, which
// tells the other, is not always there. A message that a consumer elsewhere holds
// comes back as waiting when that consumer fails or dies. So, from a process
// without the consumers, 0 means that nothing waits; ask again after the handlers
// had time to finish, or ask the process that consumes. Since a message can be
// between the two places at the moment of asking, 0 is only answered when two
// looks agree, and when the queue itself has said that it is empty.
func (b *Bus) Backlog(ctx context.Context, topic, group string) (int64, error) {
	if err := checkNames(topic, []string{group}); err != nil {
		return 0, err
	}
	ctx, cancel := b.life.Bound(ctx)
	defer cancel()
	queue, total := b.cfg.Name(topic, group), int64(0)
	err := b.desk.with(ctx, func(c *conn) (err error) {
		for look := 0; look < 2 && total == 0 && err == nil; look++ {
			total, err = b.look(c, queue)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("rabbitmq: backlog of %s: %w", queue, err)
	}
	return total, nil
}

// look counts the held ones before and after the waiting ones, and takes the
// larger, so that a message on its way back to the queue is not missed.
func (b *Bus) look(c *conn, queue string) (int64, error) {
	held := b.counter(queue)
	before, ready := held.Load(), 0
	err := onChannel(c, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if ready = q.Messages; err == nil && ready == 0 {
			ready, err = fetch(ch, queue)
		}
		return err
	})
	return int64(ready) + max(before, held.Load()), err
}

// fetch asks the queue for a message and gives it back: 1, or 0 when there is none.
// A declaration does not settle that: for a quorum queue whose leader does not answer
// within 250 ms, as after a restart, it says 0 messages and 0 consumers
// (rabbit_quorum_queue:stat of 3.10). A get is answered by the leader or fails.
func fetch(ch *amqp.Channel, queue string) (int, error) {
	d, found, err := ch.Get(queue, false)
	if err != nil || !found {
		return 0, err
	}
	return 1, d.Nack(false, true)
}
