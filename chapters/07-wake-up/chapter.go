package wake

import (
	"embed"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
)

//go:embed README.md README.zh-TW.md *.go
var files embed.FS

// Chapter is the table of contents' entry.
func Chapter() lab.Chapter {
	return lab.Chapter{
		Number: 7,
		Slug:   "wake-up",
		Title:  lab.Text{En: "Waking up at once", ZhTW: "立刻醒來"},
		Question: lab.Text{
			En: "How does the relay learn of a new row without " +
				"asking all the time, and what if it does not hear?",
			ZhTW: "relay 不一直問，怎麼知道有新的 row？沒聽到的話會怎樣？",
		},
		Topic:       Topic,
		Outbox:      true,
		DeadLetters: true,
		Listens:     true,
		Files:       files,
		Section:     "5",
		Try:         "relay-killed",
		Asks:        "lost",
		Lessons: []lab.Lesson{
			{File: "wake.go", Marks: []string{
				`Channel: outbox.Channel(d.Schema), Connect: connect(d)`,
				`Waker: waker, Poll: poll, Idle: idle`,
			}},
			{File: "order.go", Marks: []string{
				`outbox.Write(ctx, tx, order.Bus, msg)`,
			}},
		},
		Variants: []lab.Variant{{
			Name: "notify",
			Note: lab.Text{
				En: "a trigger notifies with the commit; " +
					"the relay listens, and looks every 5 s all the same",
				ZhTW: "commit 時由 trigger 發出 NOTIFY；relay LISTEN，" +
					"但每 5 秒還是自己看一次",
			},
			Declared: declared(),
			Producer: producer,
			Relay:    relay,
			Consumer: func(d lab.Deps) bus.Handler { return consumer(d).Handle },
			Replays:  func(d lab.Deps) lab.Runner { return consumer(d) },
		}},
	}
}

func producer(d lab.Deps) lab.Producer { return &Outbox{DB: d.DB, Steps: d.Steps} }

func consumer(d lab.Deps) *inbox.Once {
	o := listener(d.DB, d.BusName)
	o.Steps, o.Log = d.Steps, d.Log
	return o
}

// declared is chapter 6's: a notification makes nothing safer, and its loss nothing
// less safe.
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
