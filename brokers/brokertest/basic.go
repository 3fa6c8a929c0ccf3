package brokertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"outboxplayground/core/bus"
)

func basicChecks() []Check {
	return []Check{
		{Name: "publish-and-receive", run: publishAndReceive},
		{Name: "many-at-once", run: manyAtOnce},
		{Name: "fifty-goroutines", run: fiftyGoroutines},
		{Name: "bytes-and-headers", run: bytesAndHeaders},
		{Name: "caller-keeps-its-slices", run: callerKeepsItsSlices},
		{Name: "dedupes", skip: func(_ Harness, f Features) string {
			return unless(f.Dedupes, "does not say that it recognises repeats")
		}, run: dedupes},
	}
}

func publishAndReceive(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	if err := b.Publish(ctx); err != nil {
		tr.violate(Failed, nil, "Publish of no message: %v", err)
	}
	tr.accept(ctx, b, message(safe, 0))
	tr.conclude(ctx, b, safe, terms{ordered: tr.f.Ordered}, mailer)
}

// manyAtOnce pipelines a thousand messages in one call, and then five hundreds.
func manyAtOnce(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	tr.accept(ctx, b, messages(safe, 1000)...)
	for range 5 {
		tr.accept(ctx, b, messages(safe, 100)...)
	}
	tr.conclude(ctx, b, safe, terms{ordered: tr.f.Ordered}, mailer)
}

func fiftyGoroutines(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			tr.guard(func() {
				for n := range 10 {
					tr.accept(ctx, b, message(safe, n))
				}
			})
		})
	}
	wg.Wait()
	tr.conclude(ctx, b, safe, terms{}, mailer)
}

func bytesAndHeaders(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	every := make([]byte, 256)
	many := map[string]string{"empty": "", "padded": "  two spaces  ", "lines": "a\r\nb\n",
		"X-Mixed-Case": "stays", "x-mixed-case": "differs", "a name: with=signs\n": "and spaces", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"lower_case": "stays", "utf8": "您好, ñandú 📦"}
	for i := range every {
		every[i] = byte(i)
		many[fmt.Sprintf("h%d", i%50)] = strings.Repeat("v", i%50)
	}
	odd := []bus.Message{
		{Key: "utf-8", Payload: []byte(`{"name":"訂單 47 📦"}`)},
		{Key: "digits", Payload: []byte(`{"amount":1000000000000001, "pad" : 1.0}`)},
		{Key: "empty", Payload: []byte{}},
		{Key: "nil", Payload: nil},
		{Key: "bytes", Payload: every},
		{Key: "headers", Payload: []byte("x"), Headers: many},
		{Key: "", Payload: []byte("no key, no headers")},
		{Key: "鍵 ø & key/with spaces", Payload: []byte("{}")},
		{Key: "large", Payload: []byte(strings.Repeat("0123456789", 20_000))},
	}
	for i := range odd {
		m := message(safe, i)
		odd[i].ID, odd[i].Topic = m.ID, m.Topic
		tr.accept(ctx, b, odd[i])
	}
	tr.accept(ctx, b, again(odd)...)
	tr.conclude(ctx, b, safe, terms{}, mailer)
}

// again returns the messages with new ids, to send them once more in one call.
func again(msgs []bus.Message) []bus.Message {
	out := make([]bus.Message, len(msgs))
	for i, m := range msgs {
		m.ID = message(safe, i).ID
		out[i] = m
	}
	return out
}

// callerKeepsItsSlices changes payload and headers after Publish has returned:
// the message on the bus must not change with them. (Before, it is forbidden.)
func callerKeepsItsSlices(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	m := message(safe, 0)
	tr.accept(ctx, b, m)
	m.Payload[0], m.Headers["n"] = '!', "changed"
	spoil := func(_ context.Context, m bus.Message) error {
		for i := range m.Payload {
			m.Payload[i] = '?'
		}
		return nil
	}
	tr.subscribe(ctx, b, safe, mailer, "a", spoil)
	tr.conclude(ctx, b, safe, terms{}, mailer)
}

// dedupes publishes one id twice; a bus that recognises repeats delivers it once.
func dedupes(ctx context.Context, tr *trial) {
	b := tr.ready(ctx)
	tr.subscribe(ctx, b, safe, mailer, "a", nil)
	m := message(safe, 0)
	tr.accept(ctx, b, m)
	tr.accept(ctx, b, m)
	tr.accept(ctx, b, message(safe, 1))
	tr.conclude(ctx, b, safe, terms{}, mailer)
	n := tr.ledger.await(ctx, time.Millisecond, func() bool {
		return tr.ledger.deliveries(mailer, func(d *delivery) bool { return d.msg.ID == m.ID }) == 1
	})
	if !n {
		tr.violate(Duplicated, []string{m.ID}, "an id published twice was not delivered exactly once")
	}
}
