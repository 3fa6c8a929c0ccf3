package rabbitmq

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest/wire"
	"outboxplayground/core/bus"
)

func TestCutBeforeTheConfirmIsAmbiguous(t *testing.T) {
	f := &wire.Wire{}
	b := open(t, Options{}, f.Dial)
	if err := b.Publish(within(t, 5*time.Second), messages(1)...); err != nil {
		t.Fatal(err)
	}
	release := f.Hold()
	answer := make(chan error, 1)
	msgs := messages(3)
	go func() { answer <- b.Publish(within(t, 20*time.Second), msgs...) }()
	other, err := Open(within(t, 5*time.Second), bus.Config{URL: b.cfg.URL, Prefix: b.cfg.Prefix}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	eventually(t, "stored, unconfirmed", func() bool {
		n, err := other.Backlog(within(t, 5*time.Second), "safe", "mail")
		return err == nil && n == 4
	})
	f.Cut(true)
	release()
	err = <-answer
	if got := classes(err, 3); got != "ambiguous ambiguous ambiguous" {
		t.Error(got, err)
	}
	began := time.Now()
	err = b.Publish(within(t, 5*time.Second), messages(2)...)
	if got := classes(err, 2); got != "unavailable unavailable" || time.Since(began) > 100*time.Millisecond {
		t.Error(got, err, time.Since(began))
	}
	f.Heal()
	eventually(t, "published after the cut", func() bool { return b.Publish(within(t, 5*time.Second), messages(1)...) == nil })
}

func TestDeadlineIsObeyedWhileTheBrokerStalls(t *testing.T) {
	f := &wire.Wire{}
	b := open(t, Options{}, f.Dial)
	if err := b.Publish(within(t, 5*time.Second), messages(1)...); err != nil {
		t.Fatal(err)
	}
	release := f.Hold()
	defer release()
	for _, want := range []string{ // the second needs another channel, which cannot be opened
		"ambiguous ambiguous", "unavailable unavailable"} {
		began := time.Now()
		err := b.Publish(within(t, 200*time.Millisecond), messages(2)...)
		if took := time.Since(began); classes(err, 2) != want || !errors.Is(bus.Outcome(err, 0), context.DeadlineExceeded) || took > 400*time.Millisecond {
			t.Error(err, took)
		}
	}
	began := time.Now()
	if _, err := b.Backlog(within(t, 200*time.Millisecond), "safe", "mail"); err == nil || time.Since(began) > 3*time.Second {
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
	msgs := messages(8)
	for i := range msgs {
		msgs[i].Payload = make([]byte, 4<<20)
	}
	began := time.Now()
	err := b.Publish(within(t, 50*time.Millisecond), msgs...)
	if took := time.Since(began); err == nil || took > time.Second {
		t.Error(err, took)
	}
}

func TestConsumerSurvivesACut(t *testing.T) {
	f := &wire.Wire{}
	b := open(t, Options{}, f.Dial)
	seen := make(chan struct{}, 100)
	r := receive(t, b, "mail", func(context.Context, bus.Message) error { seen <- struct{}{}; return nil })
	if err := b.Publish(within(t, 5*time.Second), messages(1)...); err != nil {
		t.Fatal(err)
	}
	<-seen
	f.Cut(false)
	eventually(t, "published again", func() bool { return b.Publish(within(t, 5*time.Second), messages(1)...) == nil })
	eventually(t, "received again", func() bool { return len(r.all()) >= 2 })
}

func TestHeldMessagesGoBackWhenASubscriptionEnds(t *testing.T) {
	b := open(t, Options{}, nil)
	if err := b.Publish(within(t, 5*time.Second), messages(10)...); err != nil {
		t.Fatal(err)
	}
	holding := make(chan struct{}, 16)
	first := receive(t, b, "mail", func(ctx context.Context, _ bus.Message) error { holding <- struct{}{}; <-ctx.Done(); return ctx.Err() })
	<-holding
	first.end(t)
	second := receive(t, b, "mail", nil)
	eventually(t, "all ten", func() bool { return len(second.all()) == 10 })
}

func TestFiftyGoroutines(t *testing.T) {
	b := open(t, Options{}, nil)
	r := receive(t, b, "mail", nil)
	var wg sync.WaitGroup
	var failed atomic.Int64
	began := time.Now()
	for range 50 {
		wg.Go(func() {
			for range 20 {
				msgs := messages(2)
				msgs[0].Topic = "nowhere"
				if err := b.Publish(within(t, 20*time.Second), msgs...); classes(err, 2) != "rejected accepted" {
					failed.Add(1)
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("1000 publishes of 2 in %v", time.Since(began))
	eventually(t, "all", func() bool { return len(r.all()) == 1000 })
}

func TestCloseWhilePublishing(t *testing.T) {
	b := open(t, Options{}, nil)
	var wg sync.WaitGroup
	started := make(chan struct{}, 10)
	for range 10 {
		wg.Go(func() {
			for {
				err := b.Publish(within(t, 5*time.Second), messages(10)...)
				select {
				case started <- struct{}{}:
				default:
				}
				if bus.Classify(err) == bus.Unavailable {
					return
				}
			}
		})
	}
	<-started
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if err := b.Publish(within(t, time.Second), messages(1)...); !errors.Is(err, bus.ErrUnavailable) {
		t.Error(err)
	}
	if err := b.Subscribe(within(t, 5*time.Second), "safe", "mail", nil); !errors.Is(err, bus.ErrUnavailable) {
		t.Error(err)
	}
}

func TestOpenWithoutABroker(t *testing.T) {
	began := time.Now()
	b, err := Open(within(t, 5*time.Second), bus.Config{URL: "amqp://u:secret@127.0.0.1:1/"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.Publish(within(t, 5*time.Second), messages(1)...)
	if !errors.Is(err, bus.ErrUnavailable) || strings.Contains(err.Error(), "secret") || time.Since(began) > time.Second {
		t.Error(err, time.Since(began))
	}
	if err := b.Prepare(within(t, 300*time.Millisecond), "safe"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for _, url := range []string{"", "http://secret@x", "amqp://u:secret@h:port/", "amqp://a:secret%zz@h"} {
		if _, err := Open(within(t, time.Second), bus.Config{URL: url}, Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(url, err)
		}
	}
}

func TestAPublishIsUnavailableWhenItsContextIsOver(t *testing.T) {
	b := open(t, Options{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Publish(ctx, messages(1)...); !errors.Is(err, bus.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n, err := b.Backlog(within(t, 5*time.Second), "safe", "mail"); err != nil || n != 0 {
		t.Error(n, err)
	}
}
