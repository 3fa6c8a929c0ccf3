package nats

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/brokers/brokertest/wire"
	"outboxplayground/core/bus"
)

func TestCutBeforeTheAcknowledgementIsAmbiguous(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		f := &wire.Wire{}
		b := open(t, url, Options{}, f.Dial)
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
		kit.Eventually(t, 20*time.Second, "stored, not acknowledged", func() bool { return backlog(t, other) == 4 })
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
		// The consumer's own count may lag behind the stream.
		kit.Eventually(t, 20*time.Second, "all of it to be counted", func() bool { return backlog(t, other) >= 5 })
		if n := backlog(t, other); n != 5 {
			t.Errorf("%d stored, want 5: something was kept and sent later", n)
		}
	})
}

func TestDeadlineIsObeyedWhileTheServerStalls(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		f := &wire.Wire{}
		b := open(t, url, Options{}, f.Dial)
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...); err != nil {
			t.Fatal(err)
		}
		release := f.Hold()
		defer release()
		for range 3 {
			began := time.Now()
			err := b.Publish(kit.Within(t, 200*time.Millisecond), kit.Messages(2)...)
			if took := time.Since(began); kit.Classes(err, 2) != "ambiguous ambiguous" || !errors.Is(bus.Outcome(err, 0), context.DeadlineExceeded) || took > 400*time.Millisecond {
				t.Error(err, took)
			}
		}
		began := time.Now()
		if _, err := b.Backlog(kit.Within(t, 200*time.Millisecond), "safe", "mail"); err == nil || time.Since(began) > time.Second {
			t.Error("backlog:", err, time.Since(began))
		}
		began = time.Now()
		b.Close()
		if took := time.Since(began); took > 2*time.Second {
			t.Error("Close took", took)
		}
	})
}

func TestLargePayloadsIntoAStalledSocketObeyTheDeadline(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		f := &wire.Wire{}
		b := open(t, url, Options{}, f.Dial)
		defer f.Stall()()
		msgs := kit.Messages(8)
		for i := range msgs {
			msgs[i].Payload = make([]byte, 512<<10)
		}
		began := time.Now()
		err := b.Publish(kit.Within(t, 100*time.Millisecond), msgs...)
		if took := time.Since(began); took > time.Second || kit.Classes(err, 8) != "ambiguous"+strings.Repeat(" unavailable", 7) {
			t.Error(kit.Classes(err, 8), err, took)
		}
		began = time.Now()
		err = b.Publish(kit.Within(t, 100*time.Millisecond), kit.Messages(1)...)
		if took := time.Since(began); err == nil || took > time.Second {
			t.Error(err, took)
		}
		began = time.Now()
		b.Close()
		if took := time.Since(began); took > 3*time.Second {
			t.Error("Close took", took)
		}
	})
}

func TestConsumerSurvivesACut(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		f := &wire.Wire{}
		b := open(t, url, Options{}, f.Dial)
		r := kit.Receive(t, b, "mail", nil)
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...); err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, 20*time.Second, "received", func() bool { return len(r.All()) == 1 })
		f.Cut(false)
		kit.Eventually(t, 20*time.Second, "published again", func() bool { return b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...) == nil })
		kit.Eventually(t, 20*time.Second, "received again", func() bool { return len(r.All()) >= 2 })
	})
}

func TestHeldMessagesGoBackWhenASubscriptionEnds(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{AckWait: time.Minute}, nil)
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(10)...); err != nil {
			t.Fatal(err)
		}
		holding := make(chan struct{}, 16)
		first := kit.Receive(t, b, "mail", func(ctx context.Context, _ bus.Message) error { holding <- struct{}{}; <-ctx.Done(); return ctx.Err() })
		<-holding
		first.End(t)
		second := kit.Receive(t, b, "mail", nil)
		kit.Eventually(t, 20*time.Second, "all ten", func() bool { return len(second.All()) == 10 })
	})
}

// TestMessagesOnTheirWayGoBackWhenASubscriptionEnds has them stopped on the wire.
func TestMessagesOnTheirWayGoBackWhenASubscriptionEnds(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		f := &wire.Wire{}
		b := open(t, url, Options{AckWait: time.Minute}, f.Dial)
		other, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: url, Prefix: b.cfg.Prefix}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		info := func() *jetstream.ConsumerInfo {
			c, err := other.js.Consumer(kit.Within(t, 5*time.Second), b.stream("safe"), "mail")
			if err != nil {
				t.Fatal(err)
			}
			return c.CachedInfo()
		}
		first := kit.Receive(t, b, "mail", nil)
		kit.Eventually(t, 20*time.Second, "asks for messages", func() bool { return info().NumWaiting == 1 })
		release := f.Hold()
		if err := other.Publish(kit.Within(t, 5*time.Second), kit.Messages(10)...); err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, 20*time.Second, "sent to the first", func() bool { return info().NumAckPending == 10 })
		first.Stop()
		release()
		second := kit.Receive(t, other, "mail", nil)
		kit.Eventually(t, 20*time.Second, "all ten", func() bool { return len(first.All())+len(second.All()) == 10 })
		second.End(t)
	})
}

func TestFiftyGoroutines(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		r := kit.Receive(t, b, "mail", nil)
		var wg sync.WaitGroup
		began := time.Now()
		for range 50 {
			wg.Go(func() {
				for range 20 {
					msgs := kit.Messages(2)
					msgs[0].Topic = "nowhere"
					if err := b.Publish(kit.Within(t, 20*time.Second), msgs...); kit.Classes(err, 2) != "rejected accepted" {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("1000 publishes of 2 in %v", time.Since(began))
		kit.Eventually(t, 20*time.Second, "all", func() bool { return len(r.All()) == 1000 })
	})
}

func TestCloseWhilePublishing(t *testing.T) {
	each(t, func(t *testing.T, url string) { kit.CloseWhilePublishing(t, open(t, url, Options{}, nil)) })
}

func TestOpenWithoutAServer(t *testing.T) {
	began := time.Now()
	b, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: "nats://u:secret@127.0.0.1:1"}, Options{})
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
	for _, url := range []string{"", "http://secret@x", "nats://u:secret@h:port/", "nats://a:secret%zz@h"} {
		if _, err := Open(kit.Within(t, time.Second), bus.Config{URL: url}, Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(url, err)
		}
	}
}

func TestOpenIntoABlackHoleObeysItsContext(t *testing.T) {
	f := &wire.Wire{}
	s := embedded(t, t.TempDir(), natsserver.RANDOM_PORT, nil)
	defer halt(s)
	release := f.Hold()
	defer release()
	began := time.Now()
	b, err := Open(kit.Within(t, 300*time.Millisecond), bus.Config{URL: s.ClientURL(), Dial: f.Dial}, Options{})
	if err != nil || time.Since(began) > 600*time.Millisecond {
		t.Fatal(err, time.Since(began))
	}
	defer b.Close()
	began = time.Now()
	err = b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...)
	if !errors.Is(err, bus.ErrUnavailable) || time.Since(began) > 100*time.Millisecond {
		t.Error(err, time.Since(began))
	}
}

func TestOpenWhileTheDialHangsObeysItsContext(t *testing.T) {
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	began := time.Now()
	b, err := Open(kit.Within(t, 300*time.Millisecond), bus.Config{URL: "nats://127.0.0.1:1", Dial: hang}, Options{})
	if err != nil || time.Since(began) > 600*time.Millisecond {
		t.Error(err, time.Since(began))
	}
	defer b.Close()
	for range 3 { // the client dials meanwhile, and holds its lock
		began = time.Now()
		err = b.Publish(kit.Within(t, 5*time.Second), kit.Messages(1)...)
		if !errors.Is(err, bus.ErrUnavailable) || time.Since(began) > 100*time.Millisecond {
			t.Error(err, time.Since(began))
		}
	}
}

func TestWrongPasswordIsUnavailableUntilItIsRight(t *testing.T) {
	dir := t.TempDir()
	s := embedded(t, dir, natsserver.RANDOM_PORT, func(o *natsserver.Options) { o.Username, o.Password = "u", "right" })
	url := strings.Replace(s.ClientURL(), "nats://", "nats://u:wrong@", 1)
	b, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: url}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var why error
	kit.Eventually(t, 20*time.Second, "an error that tells", func() bool {
		why = b.Publish(kit.Within(t, time.Second), kit.Messages(1)...)
		return strings.Contains(why.Error(), "Authorization")
	})
	if !errors.Is(why, bus.ErrUnavailable) || strings.Contains(why.Error(), "wrong") {
		t.Error(why)
	}
	port := portOf(t, s)
	halt(s)
	s = embedded(t, dir, port, func(o *natsserver.Options) { o.Username, o.Password = "u", "wrong" })
	defer halt(s)
	if err := b.Prepare(kit.Within(t, 10*time.Second), "safe"); err != nil {
		t.Error(err)
	}
}

func TestFullStreamIsUnavailable(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		b := open(t, url, Options{}, nil)
		s, err := b.js.Stream(kit.Within(t, 5*time.Second), b.stream("safe"))
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		c.MaxMsgs, c.Discard, c.MaxMsgSize = 1, jetstream.DiscardNew, 1000
		if _, err := b.js.UpdateStream(kit.Within(t, 5*time.Second), c); err != nil {
			t.Fatal(err)
		}
		msgs := kit.Messages(3)
		msgs[1].Payload = make([]byte, 2000)
		err = b.Publish(kit.Within(t, 5*time.Second), msgs...)
		if got := kit.Classes(err, 3); got != "accepted rejected unavailable" {
			t.Error(got, err)
		}
	})
}

func TestServerWithoutJetStreamIsUnavailable(t *testing.T) {
	s := embedded(t, t.TempDir(), natsserver.RANDOM_PORT, func(o *natsserver.Options) { o.JetStream = false })
	defer halt(s)
	b, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: s.ClientURL()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(2)...); kit.Classes(err, 2) != "unavailable unavailable" {
		t.Error(err)
	}
}

// TestServerThatShutsDownRejectsNothing publishes while the server ends JetStream
// and still holds the connection.
func TestServerThatShutsDownRejectsNothing(t *testing.T) {
	dir, port, id := t.TempDir(), natsserver.RANDOM_PORT, "t"+uuid.NewString()[:8]
	for range 5 {
		s := embedded(t, dir, port, nil)
		port = portOf(t, s)
		b, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: s.ClientURL(), Prefix: id}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Prepare(kit.Within(t, 5*time.Second), "safe", "mail"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		going := make(chan struct{}, 1)
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(5)...)
					for i := range 5 {
						if bus.Classify(bus.Outcome(err, i)) == bus.Rejected {
							t.Error(err)
							return
						}
					}
					select {
					case going <- struct{}{}:
					default:
					}
				}
			})
		}
		<-going
		halt(s)
		cancel()
		wg.Wait()
		b.Close()
	}
}

// TestServerThatForgetsEverything restarts the server on an empty directory.
func TestServerThatForgetsEverything(t *testing.T) {
	s := embedded(t, t.TempDir(), natsserver.RANDOM_PORT, nil)
	port := portOf(t, s)
	b, err := Open(kit.Within(t, 5*time.Second), bus.Config{URL: s.ClientURL()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Prepare(kit.Within(t, 5*time.Second), "safe", "mail"); err != nil {
		t.Fatal(err)
	}
	r := kit.Receive(t, b, "mail", nil)
	if err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(3)...); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, 20*time.Second, "three", func() bool { return len(r.All()) == 3 })
	halt(s)
	kit.Eventually(t, 20*time.Second, "noticed", func() bool {
		return errors.Is(b.Publish(kit.Within(t, time.Second), kit.Messages(1)...), bus.ErrUnavailable)
	})
	s = embedded(t, t.TempDir(), port, nil)
	t.Cleanup(func() { halt(s) })
	kit.Eventually(t, 20*time.Second, "published to the new stream", func() bool { return b.Publish(kit.Within(t, time.Second), kit.Messages(1)...) == nil })
	kit.Eventually(t, 20*time.Second, "received from it", func() bool { return len(r.All()) == 4 })
	r.End(t)
}

func portOf(t *testing.T, s *natsserver.Server) int {
	t.Helper()
	addr, ok := s.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal(s.Addr())
	}
	return addr.Port
}
