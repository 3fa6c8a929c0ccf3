package redis

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
	"outboxplayground/infra/servers/servertest"
)

// onEach runs a test on the double and, where REDIS_URL names one, on a real server.
func onEach(t *testing.T, f func(t *testing.T, url string)) {
	t.Run("double", func(t *testing.T) {
		t.Log("double: miniredis in process")
		f(t, "redis://"+double(t).Addr())
	})
	t.Run("real", func(t *testing.T) { f(t, servertest.URL(t, "redis")) })
}

func double(t *testing.T) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// open makes a bus with a prefix of its own and closes it at the end.
func open(t *testing.T, c bus.Config, o Options) *Bus {
	t.Helper()
	if c.Prefix == "" {
		c.Prefix = "t" + uuid.NewString()[:8]
	}
	b, err := Open(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if !b.life.Over() {
			if err := b.Remove(ctx, "safe", "g"); err != nil {
				t.Log("remove:", err)
			}
		}
		b.Close()
	})
	return b
}

func prepare(t *testing.T, b *Bus, groups ...string) {
	t.Helper()
	if err := b.Prepare(kit.Within(t, 20*time.Second), "safe", groups...); err != nil {
		t.Fatal(err)
	}
}

// subscribe receives; fail says what a call, counted from 1, answers.
func subscribe(t *testing.T, b *Bus, group string, fail func(int, bus.Message) error) *kit.Receiver {
	if fail == nil {
		return kit.Receive(t, b, group, nil)
	}
	return kit.Receive(t, b, group, kit.Counted(fail))
}
