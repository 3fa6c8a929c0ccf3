package dualwrite

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
		Number: 1,
		Slug:   "dual-write",
		Title: lab.Text{
			En:   "Two writes, nothing between them",
			ZhTW: "寫兩個地方，中間什麼都沒有",
		},
		Question: lab.Text{
			En: "47 orders, and the broker restarts in " +
				"the middle. How many emails are sent?",
			ZhTW: "47 筆訂單，broker 在中間重啟。會寄出幾封確認信？",
		},
		Topic:   Topic,
		Files:   files,
		Section: "1",
		Lessons: []lab.Lesson{
			{File: "order.go", Marks: []string{
				`err := pgx.BeginFunc(`,
				`if err := s.publish(ctx, order); err != nil {`,
				`s.Log.DebugContext(ctx, "publish failed after commit"`,
			}},
			{File: "order_publish_first.go", Variant: "publish-first", Marks: []string{
				`if err := s.publish(ctx, order); err != nil {`,
				`return s.Steps.Reach(ctx, checkpoint.BeforeCommit, order.EventID)`,
			}},
		},
		Variants: []lab.Variant{
			{
				Name: "write-first",
				Note: lab.Text{
					En:   "commit the order, then publish",
					ZhTW: "先 commit 訂單，再 publish",
				},
				Declared: writeFirstDeclared(),
				Producer: func(d lab.Deps) lab.Producer {
					return &WriteFirst{DB: d.DB, Bus: d.Bus, Steps: d.Steps, Log: d.Log}
				},
				Consumer: consumer,
			},
			{
				Name: "publish-first",
				Note: lab.Text{
					En:   "publish inside the open transaction, then commit",
					ZhTW: "在還沒 commit 的 transaction 裡先 publish",
				},
				Declared: publishFirstDeclared(),
				Producer: func(d lab.Deps) lab.Producer {
					return &PublishFirst{DB: d.DB, Bus: d.Bus, Steps: d.Steps}
				},
				Consumer: consumer,
			},
		},
	}
}

func consumer(d lab.Deps) bus.Handler {
	return (&shop.Listener{DB: d.DB, Bus: d.BusName, Steps: d.Steps}).Handle
}

func writeFirstDeclared() []lab.Declaration {
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

func publishFirstDeclared() []lab.Declaration {
	return []lab.Declaration{
		{Fault: "none", Networked: "ok"},
		{Fault: "rollback", Networked: "phantom"},
		{Fault: "broker-down", Networked: "refused 35", Except: lab.Memory("n/a")},
		{Fault: "broker-slow", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "crash-before-commit", Networked: "phantom", Except: lab.Memory("ok")},
		{Fault: "crash-after-commit", Networked: "ok", Except: lab.Memory("lost")},
		{Fault: "crash-after-publish", Networked: "phantom", Except: lab.Memory("ok")},
		{Fault: "ack-lost", Networked: "phantom", Except: lab.Memory("n/a")},
		{Fault: "relay-killed", Networked: "n/a"},
		{Fault: "crash-after-mark", Networked: "n/a"},
		{Fault: "two-relays", Networked: "n/a"},
		{Fault: "zombie-relay", Networked: "n/a"},
		{Fault: "consumer-crash", Networked: "duplicated", Except: lab.Memory("ok")},
		{Fault: "poison", Networked: "refused 1"},
		{Fault: "db-down", Networked: "refused 8"},
	}
}
