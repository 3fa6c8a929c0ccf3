package aftercommit

import (
	"embed"

	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/core/shop"
)

//go:embed README.md README.zh-TW.md *.go
var files embed.FS

// Chapter is the table of contents' entry.
func Chapter() lab.Chapter {
	return lab.Chapter{
		Number: 2,
		Slug:   "after-commit",
		Title:  lab.Text{En: "Dispatch after commit", ZhTW: "commit 之後才 dispatch"},
		Question: lab.Text{
			En: "The framework dispatches after the commit. " +
				"Which of the losses does that end?",
			ZhTW: "框架改成 commit 之後才 dispatch，這樣哪些遺失會消失？",
		},
		Topic:   Topic,
		Files:   files,
		Section: "7",
		Lessons: []lab.Lesson{
			{File: "order.go", Marks: []string{
				`var afterCommit []func()`,
				`afterCommit = append(afterCommit,`,
				`for _, dispatch := range afterCommit {`,
				`s.Log.DebugContext(ctx, "dispatch failed after commit"`,
			}},
		},
		Variants: []lab.Variant{{
			Name: "after-commit",
			Note: lab.Text{
				En:   "register in the transaction, fire after its commit",
				ZhTW: "在 transaction 裡登記，commit 之後才送出",
			},
			Declared: declared(),
			Producer: func(d lab.Deps) lab.Producer {
				return &AfterCommit{DB: d.DB, Bus: d.Bus, Steps: d.Steps, Log: d.Log}
			},
			Consumer: func(d lab.Deps) bus.Handler {
				return (&shop.Listener{DB: d.DB, Bus: d.BusName, Steps: d.Steps}).Handle
			},
		}},
	}
}

func declared() []lab.Declaration {
	return []lab.Declaration{
		{Fault: "none", Networked: "ok"},
		{Fault: "rollback", Networked: "ok"},
		{Fault: "broker-down", Networked: "lost 35", Except: lab.Memory("n/a")},
		{Fault: "broker-slow", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "crash-before-commit", Networked: "ok"},
		{Fault: "crash-after-commit", Networked: "lost 1", Except: lab.Memory("lost")},
		{Fault: "crash-after-publish", Networked: "ok", Except: lab.Memory("lost")},
		{Fault: "ack-lost", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "relay-killed", Networked: "n/a"},
		{Fault: "crash-after-mark", Networked: "n/a"},
		{Fault: "two-relays", Networked: "n/a"},
		{Fault: "zombie-relay", Networked: "n/a"},
		{Fault: "consumer-crash", Networked: "duplicated", Except: lab.Memory("ok")},
		{Fault: "poison", Networked: "lost 1"},
		{Fault: "db-down", Networked: "refused 8"},
	}
}
