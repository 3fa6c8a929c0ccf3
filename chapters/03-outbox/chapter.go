package outbox

import (
	"embed"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/core/shop"
)

//go:embed README.md README.zh-TW.md *.go
var files embed.FS

// Chapter is the table of contents' entry.
func Chapter() lab.Chapter {
	return lab.Chapter{
		Number: 3,
		Slug:   "outbox",
		Title:  lab.Text{En: "The outbox", ZhTW: "Outbox：把 event 寫成一筆 row"},
		Question: lab.Text{
			En: "The event is a row in the order's own " +
				"transaction. What can still go wrong?",
			ZhTW: "event 跟訂單在同一個 transaction 裡寫成 row，還有什麼會出錯？",
		},
		Topic:   Topic,
		Outbox:  true,
		Files:   files,
		Section: "3–5",
		Lessons: []lab.Lesson{
			{File: "order.go", Marks: []string{
				`if err := writeOutbox(ctx, tx, order.Bus, msg); err != nil {`,
				`INSERT INTO outbox (`,
				`func writeOutbox(ctx context.Context, tx pgx.Tx`,
			}},
			{File: "worker.go", Marks: []string{
				`WHERE status = 'pending' AND bus = $1 AND attempts < 5`,
				`FOR UPDATE SKIP LOCKED`,
				`status = CASE WHEN attempts + 1 >= 5 THEN 'failed' ELSE 'pending' END`,
				`failure := w.publish(ctx, r.msg)`,
				`w.DB.Exec(ctx, markSent, r.id)`,
			}},
		},
		Variants: []lab.Variant{
			variant("outbox", 0, lab.Text{
				En: "order and outbox row in one transaction; " +
					"the article's polling worker",
				ZhTW: "訂單與 outbox row 同一個 transaction；文章裡的 polling worker",
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
		GivesUp:      true,
		Declared:     declared(absorbed),
		Producer: func(d lab.Deps) lab.Producer {
			return &Outbox{DB: d.DB, Steps: d.Steps}
		},
		Relay: func(d lab.Deps) lab.Runner {
			return &Worker{DB: d.DB, Bus: d.Bus, BusName: d.BusName,
				Steps: d.Steps, Gate: d.Gate, Log: d.Log}
		},
		Consumer: func(d lab.Deps) bus.Handler {
			return (&shop.Listener{DB: d.DB, Bus: d.BusName, Steps: d.Steps}).Handle
		},
	}
}

// declared names what the worker of the article gives. NATS absorbs a repeat of an
// id within two minutes, on the publish side only. In memory the broker dies with
// the process: a row marked sent before that is lost with it.
func declared(nats string) []lab.Declaration {
	repeated := func(inMemory string) map[string]string {
		return map[string]string{"nats": nats, "inmemory": inMemory}
	}
	return []lab.Declaration{
		{Fault: "none", Networked: "ok"},
		{Fault: "rollback", Networked: "ok"},
		{Fault: "broker-down", Networked: "stuck 35", Except: lab.Memory("n/a")},
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
