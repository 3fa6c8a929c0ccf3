package workers

import (
	"context"
	"embed"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
	"outboxplayground/core/shop"
)

//go:embed README.md README.zh-TW.md *.go
var files embed.FS

// Chapter is the table of contents' entry.
func Chapter() lab.Chapter {
	return lab.Chapter{
		Number: 5,
		Slug:   "many-workers",
		Title:  lab.Text{En: "Many workers", ZhTW: "很多個 worker"},
		Question: lab.Text{
			En: "Two workers read the same table. " +
				"What keeps them from sending an event twice?",
			ZhTW: "兩個 worker 讀同一張表，靠什麼不把同一個 event 送兩次？",
		},
		Topic:   Topic,
		Outbox:  true,
		Files:   files,
		Section: "5",
		Try:     "two-relays",
		Asks:    "duplicated",
		Lessons: []lab.Lesson{
			{File: "order.go", Marks: []string{
				`const lease = 3 * time.Second`,
				`func queue() outbox.Queue`,
			}},
		},
		Variants: []lab.Variant{
			variant("leased", 0, lab.Text{
				En: "a claim writes a lease and a token; " +
					"only who knows the token may mark",
				ZhTW: "claim 時寫下租約與 token；token 對得上才能標記",
			}),
			variant("dedupe-100ms", 100*time.Millisecond, lab.Text{
				En: "the same, on a NATS that recognises " +
					"a repeated id for 100 ms only",
				ZhTW: "同上，但 NATS 只在 100 ms 內認得重複的 id",
			}),
		},
	}
}

// variant is the chapter's one way, on a NATS that forgets ids after the window.
func variant(name string, window time.Duration, note lab.Text) lab.Variant {
	absorbed := "ok" // by the two minutes of the server's default
	if window > 0 {
		absorbed = "duplicated"
	}
	return lab.Variant{
		Name:         name,
		Note:         note,
		DedupeWindow: window,
		Declared:     declared(absorbed),
		Producer: func(d lab.Deps) lab.Producer {
			return &Outbox{DB: d.DB, Steps: d.Steps}
		},
		Relay: func(d lab.Deps) lab.Runner {
			relay, err := outbox.NewRelay(d.DB, d.Bus, d.BusName, outbox.Config{
				Queue: queue(), Gate: d.Gate, Steps: d.Steps, Log: d.Log,
			})
			if err != nil {
				return broken{err}
			}
			return relay
		},
		Consumer: func(d lab.Deps) bus.Handler {
			return (&shop.Listener{DB: d.DB, Bus: d.BusName, Steps: d.Steps}).Handle
		},
	}
}

// broken is a relay that cannot be made; it says so when it is run.
type broken struct{ err error }

func (b broken) Run(context.Context) error { return b.err }

// declared is what is to be measured when NATS does with a repeated id as given. The
// fence refuses what a zombie wants to mark; what it has published is out.
func declared(nats string) []lab.Declaration {
	repeated := func(inMemory string) map[string]string {
		return map[string]string{"nats": nats, "inmemory": inMemory}
	}
	return []lab.Declaration{
		{Fault: "none", Networked: "ok"},
		{Fault: "rollback", Networked: "ok"},
		{Fault: "broker-down", Networked: "late", Except: lab.Memory("n/a")},
		{Fault: "broker-slow", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "crash-before-commit", Networked: "ok"},
		{Fault: "crash-after-commit", Networked: "ok"},
		{Fault: "crash-after-publish", Networked: "duplicated", Except: repeated("ok")},
		{Fault: "ack-lost", Networked: "duplicated", Except: repeated("n/a")},
		{Fault: "relay-killed", Networked: "ok"},
		{Fault: "crash-after-mark", Networked: "ok", Except: lab.Memory("lost")},
		{Fault: "two-relays", Networked: "ok"},
		{Fault: "zombie-relay", Networked: "duplicated", Except: repeated("n/a")},
		{Fault: "consumer-crash", Networked: "duplicated", Except: lab.Memory("ok")},
		{Fault: "poison", Networked: "stuck 1"},
		{Fault: "db-down", Networked: "refused 8"},
	}
}
