package redis

import (
	"net"
	"strings"
	"testing"
	"time"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
)

func TestServerErrorsThatStoreNothing(t *testing.T) {
	m := double(t)
	b := open(t, bus.Config{URL: "redis://" + m.Addr()}, Options{})
	prepare(t, b, "g")
	for answer, want := range map[string]bus.Class{
		"OOM command not allowed when used memory > 'maxmemory'.":    bus.Unavailable,
		"LOADING Redis is loading the dataset in memory":             bus.Unavailable,
		"READONLY You can't write against a read only replica.":      bus.Unavailable,
		"MISCONF Redis is configured to save RDB snapshots, but ...": bus.Unavailable,
		"MASTERDOWN Link with MASTER is down":                        bus.Unavailable,
		"NOPERM User x has no permissions to run the 'xadd' command": bus.Rejected,
		"ERR something that this driver has never heard of":          bus.Ambiguous,
	} {
		m.SetError(answer)
		kit.WantClass(t, b.Publish(kit.Within(t, 5*time.Second), kit.Message(1)), want)
		m.SetError("")
	}
}

func TestACutConnectionAndARefusedOne(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var net kit.Cutter
		b := open(t, bus.Config{URL: url, Dial: net.Dial}, Options{})
		prepare(t, b, "g")
		in := subscribe(t, b, "g", nil)
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Message(0)); err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, 10*time.Second, "the first message", func() bool { return in.Distinct() == 1 })
		net.Cut(true)
		for range 30 { // more often than the pool has places
			begin := time.Now()
			kit.WantClass(t, b.Publish(kit.Within(t, 5*time.Second), kit.Messages(50)...), bus.Unavailable)
			if took := time.Since(begin); took > 500*time.Millisecond {
				t.Errorf("refused after %v", took)
			}
		}
		net.Cut(false)
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Message(1)); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		kit.Eventually(t, 15*time.Second, "the second message", func() bool { return in.Distinct() == 2 })
	})
}

func TestNobodyThere(t *testing.T) {
	hole := blackHole(t)
	for url, limit := range map[string]time.Duration{"127.0.0.1:1": 200 * time.Millisecond, hole: 2500 * time.Millisecond} {
		begin := time.Now()
		b := open(t, bus.Config{URL: "redis://u:secret@" + url}, Options{})
		if took := time.Since(begin); took > 2200*time.Millisecond {
			t.Errorf("%s: Open took %v", url, took)
		}
		begin = time.Now()
		err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(3)...)
		kit.WantClass(t, err, bus.Unavailable)
		if took := time.Since(begin); took > limit {
			t.Errorf("%s: Publish took %v", url, took)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Error("the password is in the error")
		}
		begin = time.Now()
		kit.WantClass(t, b.Publish(kit.Within(t, 100*time.Millisecond), kit.Messages(3)...), bus.Unavailable)
		if took := time.Since(begin); took > 300*time.Millisecond {
			t.Errorf("%s: the deadline was overrun: %v", url, took)
		}
		if err := b.Prepare(kit.Within(t, 300*time.Millisecond), "safe"); err == nil {
			t.Error("Prepare succeeded without a server")
		}
		b.Close()
	}
}

// blackHole accepts and never answers.
func blackHole(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestFiftyPublishersAndAClose(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b := open(t, bus.Config{URL: url}, Options{})
		prepare(t, b, "g")
		kit.FiftyPublishers(t, b, "g")
		kit.CloseWhilePublishing(t, b)
	})
}

func TestBadConfiguration(t *testing.T) {
	for _, url := range []string{"", "host:6379", "http://x", "redis://user:secret@host:port:bad", "redis://:secret@h/notanumber"} {
		_, err := Open(t.Context(), bus.Config{URL: url}, Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
