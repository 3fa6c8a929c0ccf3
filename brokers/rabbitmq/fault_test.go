package rabbitmq

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/brokers/brokertest/wire"
	"outboxplayground/core/bus"
)

func TestCutBeforeTheConfirmIsAmbiguous(t *testing.T) {
	f := &wire.Wire{}
	b := open(t, Options{}, f.Dial)
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...); err != nil {
		t.Fatal(err)
	}
	release := f.Hold()
	answer := make(chan error, 1)
	msgs := kit.Messages(3)
	go func() { answer <- b.Publish(kit.Within(t, 20*time.Second), msgs...) }()
	other, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: b.cfg.URL, Prefix: b.cfg.Prefix}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	kit.Eventually(t, 20*time.Second, "stored, unconfirmed", func() bool {
		n, err := other.Backlog(kit.Within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 4
	})
	f.Cut(true)
	release()
	err = <-answer
	if got := kit.Classes(err, 3); got != "ambiguous ambiguous ambiguous" {
		t.Error(got, err)
	}
	began := time.Now()
	err = b.Publish(kit.Within(t, 5*time.Second), kit.Messages(2)...)
	if got := kit.Classes(err, 2); got != "unavailable unavailable" || time.Since(began) > 100*time.Millisecond {
		t.Error(got, err, time.Since(began))
	}
	f.Heal()
	kit.Eventually(t, 20*time.Second, "published after the cut", func() bool { return b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...) == nil })
}

func TestDeadlineIsObeyedWhileTheBrokerStalls(t *testing.T) {
	f := &wire.Wire{}
	b := open(t, Options{}, f.Dial)
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...); err != nil {
		t.Fatal(err)
	}
	release := f.Hold()
	defer release()
	for _, want := range []string{ // the second needs another channel, which cannot be opened
		"ambiguous ambiguous", "unavailable unavailable"} {
		began := time.Now()
		err := b.Publish(kit.Within(t, 200*time.Millisecond), kit.Messages(2)...)
		if took := time.Since(began); kit.Classes(err, 2) != want || !errors.Is(bus.Outcome(err, 0), context.DeadlineExceeded) || took > 400*time.Millisecond {
			t.Error(err, took)
		}
	}
	began := time.Now()
	if _, err := b.Backlog(kit.Within(t, 200*time.Millisecond), "safe", "mail"); err == nil || time.Since(began) > 3*time.Second {
		t.Error("backlog:", err, time.Since(began))
	}
	began = time.Now()
	b.Close()
	if took := time.Since(began); took > 4*time.Second {
		t.Error("Close took", took)
	}
}

func TestLargePayloadIntoAStalledSocketObeysTheDeadline(t *testing.T) {
	f := &wire.Wire{}
	b := open(t, Options{}, f.Dial)
	defer f.Stall()()
	msgs := kit.Messages(8)
	for i := range msgs {
		msgs[i].Payload = make([]byte, 4<<20)
	}
	began := time.Now()
	err := b.Publish(kit.Within(t, 50*time.Millisecond), msgs...)
	if took := time.Since(began); err == nil || took > time.Second {
		t.Error(err, took)
	}
}

func TestConsumerSurvivesACut(t *testing.T) {
	f := &wire.Wire{}
	b := open(t, Options{}, f.Dial)
	seen := make(chan struct{}, 100)
	r := kit.Receive(t, b, "mail", func(context.Context, bus.Message) error { seen <- struct{}{}; return nil })
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...); err != nil {
		t.Fatal(err)
	}
	<-seen
	f.Cut(false)
	kit.Eventually(t, 20*time.Second, "published again", func() bool { return b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...) == nil })
	kit.Eventually(t, 20*time.Second, "received again", func() bool { return len(r.All()) >= 2 })
}

func TestHeldMessagesGoBackWhenASubscriptionEnds(t *testing.T) {
	b := open(t, Options{}, nil)
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(10)...); err != nil {
		t.Fatal(err)
	}
	holding := make(chan struct{}, 16)
	first := kit.Receive(t, b, "mail", func(ctx context.Context, _ bus.Message) error { holding <- struct{}{}; <-ctx.Done(); return ctx.Err() })
	<-holding
	first.End(t)
	second := kit.Receive(t, b, "mail", nil)
	kit.Eventually(t, 20*time.Second, "all ten", func() bool { return len(second.All()) == 10 })
}

func TestFiftyGoroutines(t *testing.T) {
	b := open(t, Options{}, nil)
	r := kit.Receive(t, b, "mail", nil)
	var wg sync.WaitGroup
	var failed atomic.Int64
	began := time.Now()
	for range 50 {
		wg.Go(func() {
			for range 20 {
				msgs := kit.Messages(2)
				msgs[0].Topic = "nowhere"
				if err := b.Publish(kit.Within(t, 20*time.Second), msgs...); kit.Classes(err, 2) != "rejected accepted" {
					failed.Add(1)
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("1000 publishes of 2 in %v", time.Since(began))
	kit.Eventually(t, 20*time.Second, "all", func() bool { return len(r.All()) == 1000 })
}

func TestCloseWhilePublishing(t *testing.T) { kit.CloseWhilePublishing(t, open(t, Options{}, nil)) }

func TestOpenWithoutABroker(t *testing.T) {
	began := time.Now()
	b, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: "amqp://u:secret@127.0.0.1:1/"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...)
	if !errors.Is(err, bus.ErrUnavailable) || strings.Contains(err.Error(), "secret") || time.Since(began) > time.Second {
		t.Error(err, time.Since(began))
	}
	if err := b.Prepare(kit.Within(t, 300*time.Millisecond), "safe"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for _, url := range []string{"", "http://secret@x", "amqp://u:secret@h:port/", "amqp://a:secret%zz@h"} {
		if _, err := Open(kit.Within(t, time.Second), bus.Config{URL: url}, Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(url, err)
		}
	}
}

func TestAPublishIsUnavailableWhenItsContextIsOver(t *testing.T) {
	b := open(t, Options{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Publish(ctx, kit.Messages(1)...); !errors.Is(err, bus.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n, err := b.Backlog(kit.Within(t, 5*time.Second), "safe", "mail"); err != nil || n != 0 {
		t.Error(n, err)
	}
}
