package outage

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
		Number: 4,
		Slug:   "outage-and-retry",
		Title:  lab.Text{En: "Outage and retry", ZhTW: "斷線與重試"},
		Question: lab.Text{
			En: "The broker is away for half a minute. " +
				"Which rows deserve to be given up?",
			ZhTW: "broker 斷線半分鐘，哪些 row 該被放棄？",
		},
		Topic:   Topic,
		Outbox:  true,
		Files:   files,
		Section: "6",
		Asks:    "stuck",
		Lessons: []lab.Lesson{
			{File: "order.go", Marks: []string{
				`if err := outbox.Write(ctx, tx, order.Bus, msg); err != nil {`,
				`never reached the broker   costs nothing`,
				`func patient() outbox.Policy`,
			}},
		},
		Variants: []lab.Variant{
			patiently("patient", 0, lab.Text{
				En:   "three kinds of failure, three fates; an outage costs no attempt",
				ZhTW: "三種失敗、三種下場；斷線不算次數",
			}),
			givesUp(),
			patiently("dedupe-100ms", 100*time.Millisecond, lab.Text{
				En: "the default, on a NATS that recognises " +
					"a repeated id for 100 ms only",
				ZhTW: "同預設，但 NATS 只在 100 ms 內認得重複的 id",
			}),
		},
	}
}

// patiently is this chapter's way, on a NATS that forgets ids after the window.
func patiently(name string, window time.Duration, note lab.Text) lab.Variant {
	absorbed := "ok" // by the two minutes of the server's default
	if window > 0 {
		absorbed = "duplicated"
	}
	v := variant(name, note, patient(), declared("late", absorbed))
	v.DedupeWindow = window
	return v
}

// givesUp is the article's policy in this chapter's relay: the outage parks all.
func givesUp() lab.Variant {
	v := variant("article-policy", lab.Text{
		En: "the article's policy: every failure " +
			"is an attempt, the fifth parks the row",
		ZhTW: "文章的做法：失敗就算一次，第五次停在 failed",
	}, article(), declared("stuck 35", "ok"))
	v.GivesUp = true
	return v
}

func variant(
	name string, note lab.Text, policy outbox.Policy, declared []lab.Declaration,
) lab.Variant {
	return lab.Variant{
		Name:     name,
		Note:     note,
		Declared: declared,
		Producer: func(d lab.Deps) lab.Producer {
			return &Outbox{DB: d.DB, Steps: d.Steps}
		},
		Relay: func(d lab.Deps) lab.Runner {
			relay, err := outbox.NewRelay(d.DB, d.Bus, d.BusName, outbox.Config{
				Queue: outbox.Plain{}, Policy: policy,
				Gate: d.Gate, Steps: d.Steps, Log: d.Log,
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

// declared is what is to be measured when the outage ends as given, and NATS does
// with a repeated id as given.
func declared(outage, nats string) []lab.Declaration {
	repeated := func(inMemory string) map[string]string {
		return map[string]string{"nats": nats, "inmemory": inMemory}
	}
	return []lab.Declaration{
		{Fault: "none", Networked: "ok"},
		{Fault: "rollback", Networked: "ok"},
		{Fault: "broker-down", Networked: outage, Except: lab.Memory("n/a")},
		{Fault: "broker-slow", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "crash-before-commit", Networked: "ok"},
		{Fault: "crash-after-commit", Networked: "ok"},
		{Fault: "crash-after-publish", Networked: "duplicated", Except: repeated("ok")},
		{Fault: "ack-lost", Networked: "duplicated", Except: repeated("n/a")},
		{Fault: "relay-killed", Networked: "ok"},
		{Fault: "crash-after-mark", Networked: "ok", Except: lab.Memory("lost")},
		{Fault: "two-relays", Networked: "duplicated", Except: repeated("duplicated")},
		{Fault: "zombie-relay", Networked: "duplicated", Except: repeated("n/a")},
		{Fault: "consumer-crash", Networked: "duplicated", Except: lab.Memory("ok")},
		{Fault: "poison", Networked: "stuck 1"},
		{Fault: "db-down", Networked: "refused 8"},
	}
}
