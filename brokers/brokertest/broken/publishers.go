package broken

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"outboxplayground/brokers/brokertest"
	"outboxplayground/core/bus"
)

type rules = []brokertest.Rule

// publishers do something wrong with the messages on their way in.
func publishers() []Breakage {
	return []Breakage{
		{Name: "acknowledges-before-storing", Breaks: rules{brokertest.Lost}, Also: rules{brokertest.WrongClass},
			Why: "acks=1, fsync later, a write-behind cache: what a crash finds there is gone", Wrap: acknowledgesBeforeStoring},
		{Name: "drops-one-in-500", Breaks: rules{brokertest.Lost}, Costly: true,
			Why: "a channel that drops when it is full; streams trimmed by MAXLEN", Wrap: dropsOneIn500},
		{Name: "duplicates-on-reconnect", Breaks: rules{brokertest.Duplicated},
			Why: "a client that sends its window again after it has reconnected", Wrap: duplicatesOnReconnect},
		{Name: "retries-by-itself", Breaks: rules{brokertest.Duplicated, brokertest.WrongClass}, Also: rules{brokertest.Ghost},
			Why: "go-redis with MaxRetries 3: the answer was lost, so it sends the XADD again", Wrap: retriesByItself},
		{Name: "sends-later", Breaks: rules{brokertest.Ghost},
			Why: "nats.go with its reconnect buffer: an error now, the message afterwards", Wrap: sendsLater},
		{Name: "loses-order", Breaks: rules{brokertest.Reordered},
			Why: "a pool of workers behind one Publish", Wrap: losesOrder},
		{Name: "re-encodes-the-payload", Breaks: rules{brokertest.Mangled},
			Why: "a driver that decodes JSON and encodes it again", Wrap: reEncodes},
		{Name: "drops-headers", Breaks: rules{brokertest.Headers},
			Why: "a driver that forgot them", Wrap: dropsHeaders},
	}
}

// acknowledgesBeforeStoring answers at once for topics that have worked before,
// and stores in the background. A failure makes it careful until it works again.
func acknowledgesBeforeStoring(h Healthy) Healthy {
	var trusted sync.Map // topics
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		_, quick := trusted.Load(msgs0(msgs).Topic)
		if len(msgs) == 1 && quick {
			time.AfterFunc(10*time.Millisecond, func() {
				if h.Publish(context.WithoutCancel(ctx), msgs...) != nil {
					trusted.Clear()
				}
			})
			return nil
		}
		err := h.Publish(ctx, msgs...)
		if err == nil {
			trusted.Store(msgs0(msgs).Topic, true)
		}
		return err
	}}
}

func msgs0(msgs []bus.Message) bus.Message {
	if len(msgs) == 0 {
		return bus.Message{}
	}
	return msgs[0]
}

func dropsOneIn500(h Healthy) Healthy {
	var count atomic.Int64
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		var kept []bus.Message
		var places []int
		for i, m := range msgs {
			if count.Add(1)%500 != 0 {
				kept, places = append(kept, m), append(places, i)
			}
		}
		err := h.Publish(ctx, kept...)
		outs := make([]error, len(msgs)) // nil for the dropped one
		for i, place := range places {
			outs[place] = bus.Outcome(err, i)
		}
		return bus.Join(outs)
	}}
}

func duplicatesOnReconnect(h Healthy) Healthy {
	var mu sync.Mutex
	var window []bus.Message
	broken := false
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		err := h.Publish(ctx, msgs...)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			broken = broken || bus.Classify(err) != bus.Rejected
			return err
		}
		if broken {
			_ = h.Publish(ctx, window...)
		}
		broken = false
		window = slices.Clone(msgs[max(0, len(msgs)-10):])
		return nil
	}}
}

func retriesByItself(h Healthy) Healthy {
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		err := h.Publish(ctx, msgs...)
		for range 3 {
			if bus.Classify(bus.Outcome(err, 0)) != bus.Ambiguous || ctx.Err() != nil {
				break
			}
			err = h.Publish(ctx, msgs...)
		}
		return err
	}}
}

// sendsLater keeps what was unavailable and sends it with the next success.
func sendsLater(h Healthy) Healthy {
	var mu sync.Mutex
	var buffer []bus.Message
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		err := h.Publish(ctx, msgs...)
		mu.Lock()
		defer mu.Unlock()
		if bus.Classify(err) == bus.Unavailable {
			buffer = append(buffer, msgs...)
		} else if err == nil && len(buffer) > 0 {
			_ = h.Publish(ctx, buffer...)
			buffer = nil
		}
		return err
	}}
}

func losesOrder(h Healthy) Healthy {
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		backwards := slices.Clone(msgs)
		slices.Reverse(backwards)
		outs := outcomes(h.Publish(ctx, backwards...), len(msgs))
		slices.Reverse(outs)
		return bus.Join(outs)
	}}
}

func reEncodes(h Healthy) Healthy {
	return changed(h, func(m *bus.Message) {
		var v any
		if json.Unmarshal(m.Payload, &v) == nil {
			m.Payload, _ = json.Marshal(v)
		}
	})
}

func dropsHeaders(h Healthy) Healthy {
	return changed(h, func(m *bus.Message) { m.Headers = nil })
}

// changed is a bus that changes each message on its way in.
func changed(h Healthy, change func(*bus.Message)) Healthy {
	return &publishing{h, func(ctx context.Context, msgs []bus.Message) error {
		msgs = slices.Clone(msgs)
		for i := range msgs {
			change(&msgs[i])
		}
		return h.Publish(ctx, msgs...)
	}}
}
