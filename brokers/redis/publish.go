package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"outboxplayground/core/bus"
)

// Publish implements bus.Bus: one pipeline of XADDs, on one connection. When it
// breaks half way, the messages whose answer was read are accepted and only the
// rest is ambiguous.
func (b *Bus) Publish(ctx context.Context, msgs ...bus.Message) error {
	leave, open := b.life.Enter()
	if !open {
		return errClosed
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, b.opt.Timeout)
	defer cancel()
	outcomes := make([]error, len(msgs))
	marks := make([]mark, len(msgs))
	cmds := make([]*redis.StringCmd, len(msgs))
	pipe := b.client.Pipeline()
	for i, m := range msgs {
		if n := size(m); n > b.opt.MaxBytes {
			outcomes[i] = fmt.Errorf("redis: %d bytes exceed the limit of %d: %w", n, b.opt.MaxBytes, bus.ErrRejected)
			continue
		}
		cmds[i] = pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: b.cfg.Name(m.Topic), NoMkStream: true, Values: fields(m, &marks[i]),
		})
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, cmd := range cmds {
		if cmd != nil {
			outcomes[i] = outcome(cmd, marks[i].sent)
		}
	}
	return bus.Join(outcomes)
}

// outcome tells what became of one XADD. An entry's ID counts even if the command
// has an error: go-redis stamps one on every command of a pipeline that broke,
// also on those that had been answered.
//
// The server's refusals come before the command is carried out, so nothing is
// stored. These pass by themselves or by an operator's hand, and are not the
// message's fault: memory is full (OOM), this is a replica (READONLY), writes are
// stopped because persisting failed (MISCONF), data is being loaded (LOADING), the
// replica's primary is away (MASTERDOWN), the cluster is down or moving
// (CLUSTERDOWN, TRYAGAIN), too few replicas (NOREPLICAS), a script is running
// (BUSY), the log-in is missing (NOAUTH). These do not: the name belongs to
// something that is no stream (WRONGTYPE), the user may not write it (NOPERM). An
// answer that is not on this list counts as ambiguous.
func outcome(cmd *redis.StringCmd, sent bool) error {
	err := cmd.Err()
	switch {
	case cmd.Val() != "":
		return nil
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("redis: no such stream: %w", bus.ErrRejected)
	case err == nil:
		return errors.New("redis: XADD answered nothing")
	case !sent:
		return fmt.Errorf("redis: %w: %w", bus.ErrUnavailable, err)
	}
	switch code(err) {
	case "OOM", "READONLY", "MISCONF", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY", "NOAUTH":
		return fmt.Errorf("redis: %w: %w", bus.ErrUnavailable, err)
	case "WRONGTYPE", "NOPERM":
		return fmt.Errorf("redis: %w: %w", bus.ErrRejected, err)
	}
	return fmt.Errorf("redis: %w", err)
}

// code is the first word of an error that the server answered; "" for any other.
func code(err error) string {
	var answered redis.Error
	if !errors.As(err, &answered) {
		return ""
	}
	word, _, _ := strings.Cut(answered.Error(), " ")
	return word
}
