package idempotent

import (
	"context"
	"embed"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
)

//go:embed README.md README.zh-TW.md *.go
var files embed.FS

// Chapter is the table of contents' entry.
func Chapter() lab.Chapter {
	return lab.Chapter{
		Number: 6,
		Slug:   "idempotent-consumer",
		Title:  lab.Text{En: "The idempotent consumer", ZhTW: "冪等的 consumer"},
		Question: lab.Text{
			En: "An event may come twice. How does its email go out once, " +
				"and what becomes of a message that cannot be handled?",
			ZhTW: "event 可能來兩次，信怎麼只寄一次？處理不了的訊息又會怎樣？",
		},
		Topic:       Topic,
		Outbox:      true,
		DeadLetters: true,
		Files:       files,
		Section:     "5, 9",
		Try:         "consumer-crash",
		Asks:        "duplicated",
		Lessons: []lab.Lesson{
			{File: "order.go", Marks: []string{
				`msg := shop.OrderPlaced(order, Topic)`,
			}},
			{File: "listener.go", Marks: []string{
				`return &inbox.Once{`,
				`shop.SendEmail(ctx, tx, m.ID`,
			}},
		},
		Variants: []lab.Variant{
			variant("once", 0, lab.Text{
				En: "the delivery is written down first, " +
					"in the transaction of the email",
				ZhTW: "先記下這次投遞，跟寄信同一個 transaction",
			}),
			variant("dedupe-100ms", 100*time.Millisecond, lab.Text{
				En: "the same, on a NATS that recognises a repeated id " +
					"for 100 ms only: it makes no difference any more",
				ZhTW: "同上，但 NATS 只在 100 ms 內認得重複的 id：現在已經沒有差別",
			}),
		},
	}
}

// lease is chapter 5's.
const lease = 3 * time.Second

// variant is the chapter's one way, on a NATS that forgets ids after the window.
func variant(name string, window time.Duration, note lab.Text) lab.Variant {
	return lab.Variant{
		Name:         name,
		Note:         note,
		DedupeWindow: window,
		Declared:     declared(),
		Producer:     producer,
		Relay:        relay,
		Consumer:     func(d lab.Deps) bus.Handler { return consumer(d).Handle },
		Replays:      func(d lab.Deps) lab.Runner { return consumer(d) },
	}
}

func producer(d lab.Deps) lab.Producer { return &Outbox{DB: d.DB, Steps: d.Steps} }

func consumer(d lab.Deps) *inbox.Once {
	o := listener(d.DB, d.BusName)
	o.Steps, o.Log = d.Steps, d.Log
	return o
}

// relay is chapter 5's.
func relay(d lab.Deps) lab.Runner {
	r, err := outbox.NewRelay(d.DB, d.Bus, d.BusName, outbox.Config{
		Queue: outbox.Leased{For: lease}, Gate: d.Gate, Steps: d.Steps, Log: d.Log,
	})
	if err != nil {
		return broken{err}
	}
	return r
}

// broken is a relay that cannot be made; it says so when it is run.
type broken struct{ err error }

func (b broken) Run(context.Context) error { return b.err }

// declared is what is to be measured on every bus, whatever it does with a repeated
// id: all that comes twice is absorbed. What never comes is not: in memory the broker
// dies with the process, and a row marked sent before that is lost with it.
func declared() []lab.Declaration {
	return []lab.Declaration{
		{Fault: "none", Networked: "ok"},
		{Fault: "rollback", Networked: "ok"},
		{Fault: "broker-down", Networked: "late", Except: lab.Memory("n/a")},
		{Fault: "broker-slow", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "crash-before-commit", Networked: "ok"},
		{Fault: "crash-after-commit", Networked: "ok"},
		{Fault: "crash-after-publish", Networked: "ok"},
		{Fault: "ack-lost", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "relay-killed", Networked: "ok"},
		{Fault: "crash-after-mark", Networked: "ok", Except: lab.Memory("lost")},
		{Fault: "two-relays", Networked: "ok"},
		{Fault: "zombie-relay", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "consumer-crash", Networked: "ok"},
		{Fault: "poison", Networked: "stuck 1"},
		{Fault: "db-down", Networked: "refused 8"},
	}
}
